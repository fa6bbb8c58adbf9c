"""Operators that compute each element of the output from the elements at the same place."""
