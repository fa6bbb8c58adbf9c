"""How operators are declared: schemas, specs, kernels, layouts, shape inference."""
