"""Quantised operators as TFLite defines them."""
