"""Emulated ARM machines, made of Debian packages and kept in a cache."""
