"""DynamicQuantizeLSTM against onnxruntime on random shapes and attributes."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef
from tests.runtime_arm.operators.attention.draws import Draws
from tests.support.onnx_nodes import witness


def layer(draw: Draws, batch: int) -> Any:
    """An operator with its operands."""
    steps, inputs, hidden = draw.choice([1, 5]), draw.choice([3, 8]), draw.choice([4, 6])
    direction = draw.choice(["forward", "reverse", "bidirectional"])
    directions = 2 if direction == "bidirectional" else 1
    dtype = draw.choice([np.int8, np.uint8])
    limits = np.iinfo(dtype)
    scales = draw.choice([(directions,), (directions, 4 * hidden)])

    def weight(*shape: int) -> Any:
        return np.asarray(draw.rng.integers(limits.min, limits.max, shape), dtype)

    def parameters() -> List[Any]:
        zero = np.full(scales, 0 if dtype is np.int8 else 128, dtype)
        return [draw.rng.uniform(0.002, 0.01, scales).astype(np.float32), zero]

    operands = [draw.real(steps, batch, inputs), weight(directions, inputs, 4 * hidden)]
    operands += [weight(directions, hidden, 4 * hidden), draw.maybe(draw.real(directions, 8 * hidden)), None]
    operands += [draw.maybe(draw.real(directions, batch, hidden)) for _ in range(2)]
    operands += [draw.maybe(draw.real(directions, 3 * hidden)), *parameters(), *parameters()]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    attributes: Dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    op = OperatorDef.of("DynamicQuantizeLSTM", names, ["y", "h", "c"], domain="com.microsoft", **attributes)
    return op, operands


@pytest.mark.parametrize("seed", range(40))
def test_dynamic_quantize_lstm(seed: int) -> None:
    """One sequence: of several, onnxruntime rounds the hidden states together or apart, as its threads have it."""
    op, operands = layer(Draws(seed), 1)
    for actual, expected in zip(run_kernel(op, operands), witness(op, operands, [np.float32] * 3)):
        np.testing.assert_allclose(actual, expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_several_sequences(seed: int) -> None:
    op, operands = layer(Draws(seed), 3)
    for actual, expected in zip(run_kernel(op, operands), witness(op, operands, [np.float32] * 3)):
        np.testing.assert_allclose(actual, expected, atol=0.05)


def test_refusals() -> None:
    op, operands = layer(Draws(0), 1)
    operands[8] = operands[8].reshape(-1)[:1].repeat(3)
    with pytest.raises(ShapeError, match="scale and zero point of W must be"):
        run_kernel(op, operands)
