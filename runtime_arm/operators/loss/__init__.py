"""Losses, metrics and sequence decoding."""
