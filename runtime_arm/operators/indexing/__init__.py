"""Gathering, scattering and selecting elements."""
