"""Compares two variants of a model: their costs, their accuracy, and where their numbers differ."""
