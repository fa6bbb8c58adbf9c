"""The tables of BENCHMARKS.md: armnet beside onnxruntime. Run it by ``scripts/bench``."""
