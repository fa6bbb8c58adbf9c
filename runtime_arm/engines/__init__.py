"""Fast kernels by engine key; each module adds its own to the operators that it serves."""
