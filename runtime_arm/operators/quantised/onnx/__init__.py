"""Quantised operators as ONNX defines them."""
