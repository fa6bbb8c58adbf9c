"""Operators on quantised tensors, one file a dialect and kind."""
