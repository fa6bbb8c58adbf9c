"""Normalises Caffe2's own pairs of nets, and tells whether they can run."""
