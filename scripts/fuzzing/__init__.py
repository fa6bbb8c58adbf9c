"""What ``scripts/fuzz_models`` changes, and how."""
