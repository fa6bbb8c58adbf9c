"""Passes that compute what is constant, and move constants into the layers beside them."""
