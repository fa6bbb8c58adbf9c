"""Writes any pair as an ONNX model."""
