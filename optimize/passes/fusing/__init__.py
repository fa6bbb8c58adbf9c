"""Passes that make one fused operator of two."""
