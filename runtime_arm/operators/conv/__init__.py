"""Convolutions, and their columns as blobs."""
