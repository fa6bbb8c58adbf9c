"""Replaces a run of steps by one fused step where a kernel computes it faster."""
