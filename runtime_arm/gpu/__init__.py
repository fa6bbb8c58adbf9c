"""The device beside the processor: synchronised memory, and operators on GPUs through OpenCL or CUDA's driver.

Optional and off by default; nothing here is imported unless a device is asked for. Nothing needs to be installed but
the driver: its library is called through ``ctypes``.
"""
