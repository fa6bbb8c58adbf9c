"""Attention and rotary positions: ONNX's operators and onnxruntime's."""
