"""Quantised operators as onnxruntime defines them."""
