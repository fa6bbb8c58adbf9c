"""The test suite that runs on devices. It may import only the runtime, NumPy and pytest."""
