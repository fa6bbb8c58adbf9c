"""Passes that compute constant results in advance, and fold constants into neighbouring layers."""
