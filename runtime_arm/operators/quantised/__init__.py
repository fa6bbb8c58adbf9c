"""Operators on quantised tensors: one room per dialect, one file per kind."""
