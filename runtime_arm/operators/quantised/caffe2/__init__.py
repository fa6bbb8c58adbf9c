"""Quantised operators as Caffe2 defines them."""
