"""Pooling kernels on plain (N, C, H, W) blobs."""
