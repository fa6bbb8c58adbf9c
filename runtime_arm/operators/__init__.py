"""The operators: schema, shape function and reference kernel of each. One room per family, one file per dialect."""
