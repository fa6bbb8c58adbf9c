"""The parts of ``scripts/quantization_table``."""
