"""The operators: schema, shape function and reference kernel of each. One folder per family, one file per dialect."""
