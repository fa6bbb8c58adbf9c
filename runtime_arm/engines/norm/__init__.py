"""Fast kernels of normalisations."""
