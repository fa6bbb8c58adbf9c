"""Operators that move or reshape elements without computing."""
