"""Kernels of quantised operators, one file a dialect."""
