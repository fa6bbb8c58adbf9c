"""Losses, metrics, and decoding of sequences."""
