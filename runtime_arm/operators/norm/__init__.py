"""Normalisations and softmax."""
