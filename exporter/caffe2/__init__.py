"""Takes pairs that Caffe2 wrote, and tells whether they can run."""
