"""Kernels of tabular models."""
