"""Gather, scatter and select."""
