"""Compares a source model in its own runtime with a pair, blob by blob."""
