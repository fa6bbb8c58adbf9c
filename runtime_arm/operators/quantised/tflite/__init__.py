"""Quantised operators as TensorFlow Lite defines them."""
