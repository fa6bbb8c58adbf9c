"""Translates Caffe networks: every dialect of prototxt, with or without a caffemodel."""
