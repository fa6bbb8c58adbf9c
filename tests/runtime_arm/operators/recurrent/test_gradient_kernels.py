"""The fast kernels of the gradients of recurrent layers against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference
from runtime_arm.netdef import OperatorDef
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.operands import random

LAYERS = [("LSTM", 4, 2, {}), ("GRU", 3, 1, {}), ("GRU", 3, 1, {"linear_before_reset": 1}), ("RNN", 1, 1, {})]


def problem(layer: Any, given: str, steps: int = 5, batch: int = 3, hidden: int = 6, **arguments: Any) -> Any:
    """The operator and its operands. given: of b (bias), s (initial states), y (dY), l (the last states' gradients)."""
    kind, gates, count, own = layer
    d = 2 if arguments.get("direction") == "bidirectional" else 1
    weights = [random((d, gates * hidden, 4), 1), random((d, gates * hidden, hidden), 2)]
    bias = random((d, 2 * gates * hidden), 3) if "b" in given else None
    states = [random((d, batch, hidden), 4 + i) if "s" in given else None for i in range(count)]
    dy = random((steps, d, batch, hidden), 6) if "y" in given else None
    last = [random((d, batch, hidden), 7 + i) if "l" in given else None for i in range(count)]
    operands = [random((steps, batch, 4)), *weights, bias, None, *states, dy, *last]
    names = ["" if operand is None else f"i{at}" for at, operand in enumerate(operands)]
    outputs = [f"o{i}" for i in range(3 + ("b" in given) + count * ("s" in given))]
    both = {**own, **arguments, "hidden_size": hidden}
    return OperatorDef.of(f"{kind}Gradient", names, outputs, domain="armnet", **both), operands


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", ["bsyl", "y", "bl", "sy"])
@pytest.mark.parametrize("layer", LAYERS)
def test_every_direction_with_what_is_given(layer: Any, given: str, direction: str) -> None:
    op, operands = problem(layer, given, direction=direction)
    assert assert_engines_match_reference(op, operands, terms=2000) == ["NUMPY"]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_run_allocates_nothing_of_the_size_of_a_blob(layer: Any) -> None:
    op, operands = problem(layer, "bsyl", steps=20, batch=16, hidden=64)
    assert operands[-1].nbytes * 20 > NUMPY_NBYTES / 2
    assert allocated_nbytes(op, operands, "NUMPY") < NUMPY_NBYTES


def test_sequences_that_end_early_are_left_to_the_reference() -> None:
    op, operands = problem(LAYERS[0], "by")
    operands[4] = np.array([5, 2, 1], np.int32)
    names = [*op.input[:4], "lengths", *op.input[5:]]
    assert assert_engines_match_reference(op.replace(input=tuple(names)), operands) == []
