"""What the machine is: identity, BLAS, caches, cores, memory, locks."""
