"""Makes the tables of BENCHMARKS.md: armnet compared with onnxruntime. ``scripts/bench`` runs it."""
