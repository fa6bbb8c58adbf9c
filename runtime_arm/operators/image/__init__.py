"""Resizing and sampling images; spectra."""
