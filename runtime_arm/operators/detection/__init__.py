"""Box proposals, non-maximum suppression, pooling of regions."""
