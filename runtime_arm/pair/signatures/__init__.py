"""Signatures of bundles: who packed a file, and that nobody has changed a byte of it since."""
