"""Pools: reductions of the pixels under a window."""
