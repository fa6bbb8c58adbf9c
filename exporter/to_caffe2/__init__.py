"""Writes pairs for Caffe2: nets of its own operators, and its Int8 operators for nets on integers."""
