"""Operators on quantised tensors: one folder per dialect, one file per kind."""
