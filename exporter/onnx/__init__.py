"""Translates ONNX models, from opset 1 on."""
