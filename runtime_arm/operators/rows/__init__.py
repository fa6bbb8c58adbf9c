"""Operators on rows, segments of rows and sparse lists: mostly Caffe2's, a few of ONNX's."""
