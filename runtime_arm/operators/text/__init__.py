"""Operators on strings: blobs of bytes objects, UTF-8 where they are text."""
