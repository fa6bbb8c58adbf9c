"""Kernels on tiles and planes, the layouts that convolutions pass between each other."""
