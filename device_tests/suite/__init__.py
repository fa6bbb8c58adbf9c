"""What runs on a device: the runtime, NumPy and pytest are all that it may import."""
