"""Passes that replace several operators that compute a formula by the one operator for it."""
