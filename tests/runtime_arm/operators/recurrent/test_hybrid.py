"""The fast kernels of TensorFlow Lite's LSTM and RNN with 8-bit weights against the reference kernels."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import HYBRID_STATE, assert_network_close
from tests.support.operands import random, tflite

RECURRENCE = 8.0  # rounding errors of a state propagate to the next steps, damped by gates below 1
INPUTS, HIDDEN = 5, 4
WEIGHTS = {"LSTM": [*range(1, 9), *range(12, 16)], "RNN": [1, 2, 3]}
OUTPUTS = {"LSTM": "Y h c", "RNN": "Y h"}


def layer(type: str, shape: Any, batch: int, seed: int, **arguments: Any) -> Any:
    """An operator with its operands; one scale is negative and one 0, which files have, too."""
    rng = np.random.default_rng(seed)

    def matrices(count: int, width: int) -> List[Any]:
        return [rng.integers(-127, 128, (HIDDEN, width)).astype(np.int8) for _ in range(count)]

    gates = 4 if type == "LSTM" else 1
    operands: List[Any] = [3 * random((*shape, INPUTS), seed), *matrices(gates, INPUTS), *matrices(gates, HIDDEN)]
    operands += [None] * (3 if type == "LSTM" else 0)
    operands += [random((HIDDEN,), seed + 1 + gate) for gate in range(gates)]
    operands += [None] * (2 if type == "LSTM" else 0)
    operands += [random((batch, HIDDEN), seed + 5 + state) for state in range(len(OUTPUTS[type].split()) - 1)]
    scales = [float(scale) for scale in np.resize([0.004, -0.003, 0.005, 0.0, 0.002], 24 if type == "LSTM" else 5)]
    names = " ".join("-" if value is None else f"i{at}" for at, value in enumerate(operands))
    return tflite(type, names, OUTPUTS[type], scales=scales, **arguments), operands


@pytest.mark.parametrize("type", ["LSTM", "RNN"])
@pytest.mark.parametrize("asymmetric", [0, 1])
@pytest.mark.parametrize(("shape", "batch"), [((1, 1), 1), ((1, 3), 3), ((1,), 1), ((2,), 2)])
@pytest.mark.parametrize("seed", range(5))
def test_one_step(type: str, asymmetric: int, shape: Any, batch: int, seed: int) -> None:
    op, operands = layer(type, shape, batch, seed, asymmetric=asymmetric)
    found = assert_engines_match_reference(op, operands, terms=16, amplification=RECURRENCE, constants=WEIGHTS[op.type])
    assert found == ["INT8"]


@pytest.mark.parametrize("asymmetric", [0, 1])
def test_states_that_die_away_become_zeros(asymmetric: int) -> None:
    """The inverse of the step between two integers would be infinite, and infinite times 0 is no number."""
    op, operands = layer("RNN", (1,), 1, 0, asymmetric=asymmetric, activation="RELU")
    x, w, r, b, h = operands
    h = np.array([[1e-37, 0, 1e-38, 0]], np.float32)
    for engine in ("REFERENCE", "INT8"):
        for result in run_kernel(op, [0 * x, w, r, 0 * b, h], engine, constants=WEIGHTS["RNN"]):
            assert not result.any()


@pytest.mark.parametrize("type", ["LSTM", "RNN"])
@pytest.mark.parametrize("batch", [1, 2])
def test_more_steps(type: str, batch: int) -> None:
    """A state on the border between two integers may become either, so that a few layers may be off by a step."""
    borders = 0
    for seed in range(30):
        activation = "RELU" if type == "RNN" and seed % 2 else "TANH"
        shape = (batch, 20) if seed % 3 else (20, batch)
        op, operands = layer(
            type, shape, batch, seed, asymmetric=seed % 2, activation=activation, time_major=int(seed % 3 == 0)
        )
        try:
            found = assert_engines_match_reference(
                op, operands, terms=16, amplification=RECURRENCE, constants=WEIGHTS[op.type]
            )
            assert found == ["INT8"]
        except AssertionError:
            borders += 1
            results = run_kernel(op, operands, "INT8", WEIGHTS[op.type]), run_kernel(op, operands)
            for actual, expected in zip(*results):
                assert_network_close(actual, expected, relative=HYBRID_STATE)
    assert borders <= 3


@pytest.mark.parametrize("type", ["LSTM", "RNN"])
def test_rows_of_zeros(type: str) -> None:
    op, operands = layer(type, (3, 2), 2, 1)
    operands[0][1] = 0
    operands[0][2, 0] = 0
    assert_engines_match_reference(op, operands, terms=16, amplification=RECURRENCE, constants=WEIGHTS[op.type])


def test_what_is_left_to_the_reference() -> None:
    op, operands = layer("LSTM", (3, 1), 1, 0)
    assert supporting_engines(op, operands, WEIGHTS["LSTM"]) == ["INT8"]
    assert supporting_engines(op, operands, WEIGHTS["LSTM"][1:]) == []
    mixed = [*operands]
    mixed[2] = operands[2].astype(np.float32)
    assert supporting_engines(op, mixed, WEIGHTS["LSTM"]) == []
    peepholes = op.replace(input=(*op.input[:10], "p", *op.input[11:]))
    assert supporting_engines(peepholes, [*operands[:10], random((HIDDEN,)), *operands[11:]], WEIGHTS["LSTM"]) == []
    op, operands = layer("RNN", (3, 1), 1, 0, activation="RELU6")
    assert supporting_engines(op, operands, WEIGHTS["RNN"]) == []
