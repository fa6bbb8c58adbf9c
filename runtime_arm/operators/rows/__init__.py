"""Caffe2's operators on rows, segments and sparse lists."""
