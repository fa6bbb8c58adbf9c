"""Replaces a run of steps with one fused step if a kernel computes it faster."""
