"""What programs hand over where a pair is wanted."""

from __future__ import annotations

from runtime_arm.errors import UsageError
from runtime_arm.pair.pair import Pair


def require_pair(value: object, function: str) -> None:
    """UsageError, saying how to get one, if the value is no Pair."""
    if not isinstance(value, Pair):
        raise UsageError(
            f"{function} takes a Pair, got {type(value).__name__}: armnet.export makes one of a model's file, "
            "armnet.Pair.load reads a folder, a Predictor has it as .pair"
        )
