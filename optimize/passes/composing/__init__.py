"""Passes that replace operators that spell out a formula by the one operator that computes it."""
