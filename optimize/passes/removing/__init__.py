"""Passes that remove operators and weights without effect."""
