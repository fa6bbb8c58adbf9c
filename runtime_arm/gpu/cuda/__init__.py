"""CUDA's driver and its compiler NVRTC, called through ``ctypes``: Jetsons have no OpenCL."""
