"""Facts about the machine, and its use: identity, BLAS, caches, cores, memory, locks."""
