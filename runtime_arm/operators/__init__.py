"""What operators mean: schema, shape function and reference kernel, one room a family, one file a dialect."""
