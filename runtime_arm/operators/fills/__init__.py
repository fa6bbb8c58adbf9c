"""Operators that make a tensor from arguments, shapes or random numbers."""
