"""Chooses an engine for each operator, by cost, by measurement and within an accuracy budget."""

from optimize.engines.pick import pick_engines

__all__ = ["pick_engines"]
