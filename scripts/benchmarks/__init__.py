"""Makes the tables of BENCHMARKS.md: armnet beside onnxruntime. ``scripts/bench`` runs it."""
