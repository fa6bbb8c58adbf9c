"""Convolutions and im2col."""
