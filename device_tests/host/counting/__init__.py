"""Counts instructions on emulated ARM, and compares networks with their budgets."""
