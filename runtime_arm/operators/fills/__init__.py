"""Operators that make a blob from arguments, shapes or random numbers."""
