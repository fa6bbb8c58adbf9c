"""Recurrent units, layers and networks."""
