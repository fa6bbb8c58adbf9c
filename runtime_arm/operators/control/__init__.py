"""Operators that run sub-nets."""
