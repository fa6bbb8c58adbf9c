"""Weights, biases and scales in fewer bits: the formats, and what stores a net's constants in them."""
