"""The passes, one a file; each has a ``PASS``. The order in which they run is ``optimize/pipeline.py``'s."""
