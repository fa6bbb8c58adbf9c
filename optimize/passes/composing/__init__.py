"""Passes that give a name to what is written out as several operators."""
