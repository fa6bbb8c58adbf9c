"""Kernels of armnet's fused operators on plain blobs."""
