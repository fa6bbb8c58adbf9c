"""Recurrent units and networks."""
