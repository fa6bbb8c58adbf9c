"""Networks with random weights, as ONNX models and .tflite files."""
