"""Counts instructions on emulated ARM, and holds networks to budgets."""
