"""Passes that move or rearrange operators."""
