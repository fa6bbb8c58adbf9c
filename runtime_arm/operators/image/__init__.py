"""Resizing, sampling and transforming images and spectra."""
