"""Kernels of quantised operators, one file per dialect."""
