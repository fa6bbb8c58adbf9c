"""The passes, one per file; each file has a ``PASS``. ``optimize/pipeline.py`` has the order in which they run."""
