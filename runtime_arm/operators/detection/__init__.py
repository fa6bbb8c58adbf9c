"""Box proposals, non-maximum suppression, region pooling."""
