"""Passes that remove what contributes nothing."""
