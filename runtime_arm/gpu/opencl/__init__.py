"""OpenCL 1.2, called through ``ctypes``."""
