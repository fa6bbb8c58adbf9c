"""Checks an argument that must be a Pair."""

from __future__ import annotations

from runtime_arm.errors import UsageError
from runtime_arm.pair.pair import Pair


def require_pair(value: object, function: str) -> None:
    """UsageError, which says how to get a Pair, if the value is none."""
    if not isinstance(value, Pair):
        raise UsageError(
            f"{function} takes a Pair, got {type(value).__name__}: armnet.export makes one of a model's file, "
            "armnet.Pair.load reads a folder, a Predictor has it as .pair"
        )
