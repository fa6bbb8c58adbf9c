"""The device next to the processor: synchronised memory, and operators on GPUs through OpenCL or CUDA's driver.

Optional and off by default; nothing here is imported unless a device is requested. Only the driver needs to be
installed: its library is called through ``ctypes``.
"""
