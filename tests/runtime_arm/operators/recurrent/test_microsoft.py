"""DynamicQuantizeLSTM against onnxruntime on random layers, and its fast kernel against the reference kernel."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import HYBRID_STATE, assert_close
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.recurrent.microsoft import rounded
from runtime_arm.operators.recurrent.microsoft_kernels import rounder
from tests.runtime_arm.operators.attention.draws import Draws
from tests.support.onnx_nodes import onnxruntime_outputs

WEIGHTS = [1, 2, 3, 8, 9, 10, 11]
RECURRENCE = 8.0  # rounding errors of a state propagate to the next steps, damped by gates below 1


def layer(draw: Draws, batch: int, steps: Sequence[int] = (1, 5), sizes: Sequence[int] = (4, 6)) -> Any:
    """An operator with its operands."""
    count, inputs, hidden = draw.choice(steps), draw.choice([3, 8]), draw.choice(sizes)
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

    operands = [draw.real(count, batch, inputs), weight(directions, inputs, 4 * hidden)]
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
    for actual, expected in zip(run_kernel(op, operands), onnxruntime_outputs(op, operands, [np.float32] * 3)):
        assert_close(actual, expected, terms=16, amplification=RECURRENCE)


@pytest.mark.parametrize("seed", range(8))
def test_several_sequences(seed: int) -> None:
    op, operands = layer(Draws(seed), 3)
    for actual, expected in zip(run_kernel(op, operands), onnxruntime_outputs(op, operands, [np.float32] * 3)):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=HYBRID_STATE)


@pytest.mark.parametrize("seed", range(40))
def test_one_step_by_numpy(seed: int) -> None:
    draw = Draws(seed)
    op, operands = layer(draw, draw.choice([1, 3]), [1])
    operands[7] = None
    found = assert_engines_match_reference(op, operands, terms=16, amplification=RECURRENCE, constants=WEIGHTS)
    assert found == ["NUMPY"]


def test_more_steps_by_numpy() -> None:
    """A state on the border between two integers may become either, so that a few layers may be off by a step."""
    borders = 0
    for seed in range(60):
        draw = Draws(seed)
        op, operands = layer(draw, draw.choice([1, 3]), [2, 40])
        operands[7] = None
        if operands[0].shape[1] == 1 and draw.choice([True, False]):
            operands[4] = np.array([draw.choice([0, 1, 2, 30])], np.int32)
        try:
            found = assert_engines_match_reference(op, operands, terms=16, amplification=RECURRENCE, constants=WEIGHTS)
            assert found == ["NUMPY"]
        except AssertionError:
            borders += 1
            for actual, expected in zip(run_kernel(op, operands, "NUMPY", WEIGHTS), run_kernel(op, operands)):
                np.testing.assert_allclose(actual, expected, rtol=0, atol=HYBRID_STATE)
    assert borders <= 3


def test_weights_in_panels() -> None:
    op, operands = layer(Draws(5), 4, [1], [512])
    operands[7] = None
    operands[10] = operands[10] / 16
    assert assert_engines_match_reference(op, operands, terms=512, constants=WEIGHTS) == ["NUMPY"]


def turned(operands: Any) -> Any:
    """The operands with the batch first."""
    return [x if x is None or at not in (0, 5, 6) else x.swapaxes(0, 1) for at, x in enumerate(operands)]


def test_what_numpy_leaves_to_the_reference() -> None:
    op, operands = layer(Draws(0), 3)
    operands[7] = None
    assert supporting_engines(op, operands, WEIGHTS) == ["NUMPY"]
    assert supporting_engines(op, operands, WEIGHTS[1:]) == []
    assert supporting_engines(op.with_args(layout=1), turned(operands), WEIGHTS) == []
    early = [*operands[:4], np.array([1, 0, 1], np.int32), *operands[5:]]
    assert supporting_engines(op, early, WEIGHTS) == []


def test_rounding() -> None:
    """To the last bit, whatever the range; among these are arrays whose ends would be 256 steps apart."""
    rng = np.random.default_rng(0)
    apart = np.array([-153.5, 101.5, 101.4, 3.0], np.float32)
    cases = [rng.standard_normal((2, 9)).astype(np.float32) * scale for scale in (1e-30, 0.1, 1.0, 1e30)]
    cases += [*map(np.abs, cases), *(-np.abs(case) for case in cases), apart, -apart, np.zeros(3, np.float32)]
    cases += [
        np.array([np.nan, 1.5, -3], np.float32),
        np.array([np.inf, 1], np.float32),
        np.array([3e38, -3e38, 1], np.float32),
        np.array([1e-44, 0], np.float32),
    ]
    cases += [np.round(rng.standard_normal(50) * 60).astype(np.float32) / 2 for _ in range(200)]
    for case in cases:
        target = np.full_like(case, np.nan)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(rounder(target)(case), rounded(case).astype(np.float32))
    whole = np.rint(apart) - np.rint(apart.min())
    assert whole.max() == 256


def test_refusals() -> None:
    op, operands = layer(Draws(0), 1)
    operands[8] = operands[8].reshape(-1)[:1].repeat(3)
    with pytest.raises(ShapeError, match="scale and zero point of W must be"):
        run_kernel(op, operands)
