"""The formats in which weights are stored in fewer bits."""
