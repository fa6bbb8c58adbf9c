"""Orders operators and shares memory between blobs."""
