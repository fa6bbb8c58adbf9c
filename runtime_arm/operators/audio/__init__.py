"""Operators on sampled sounds."""
