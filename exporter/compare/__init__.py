"""Compares a source runtime with ours, blob by blob."""
