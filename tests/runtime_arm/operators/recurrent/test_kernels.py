"""The fast kernels of TensorFlow Lite's and Caffe2's recurrent layers against the reference kernels."""

from __future__ import annotations

from typing import Any, List

import pytest

from device_tests.suite.kernels import assert_engines_match_reference
from runtime_arm.netdef import OperatorDef
from tests.support.operands import caffe2, random, tflite

RECURRENCE = 8.0  # rounding errors of a state propagate to the next steps, damped by gates below 1
INPUTS, HIDDEN = 5, 3
NAMES = ["X", *(f"w{i}" for i in range(8)), "-", "-", "-", *(f"b{i}" for i in range(4)), "-", "-", "h", "c"]


def check(op: OperatorDef, inputs: List[Any], weights: List[int]) -> List[str]:
    """The engines that agree with the reference, whether the weights are known or not."""
    found = [
        assert_engines_match_reference(op, inputs, terms=16, amplification=RECURRENCE, constants=constants)
        for constants in ([], weights)
    ]
    assert found[0] == found[1]
    return found[0]


def lstm_operands(shape: Any, batch: int) -> List[Any]:
    weights = [random((HIDDEN, INPUTS), i) for i in range(4)] + [random((HIDDEN, HIDDEN), 4 + i) for i in range(4)]
    biases, states = [random((HIDDEN,), 8 + i) for i in range(4)], [random((batch, HIDDEN), 12 + i) for i in range(2)]
    return [random((*shape, INPUTS), 14), *weights, *[None] * 3, *biases, *[None] * 2, *states]


@pytest.mark.parametrize(
    ("shape", "batch", "time_major"), [((6, 1), 1, 1), ((6, 3), 3, 1), ((3, 6), 3, 0), ((2,), 2, 1)]
)
@pytest.mark.parametrize("clip", [0.0, 0.4])
def test_lstm_of_tflite(shape: Any, batch: int, time_major: int, clip: float) -> None:
    op = tflite("LSTM", " ".join(NAMES), "Y H C", time_major=time_major, cell_clip=clip)
    assert check(op, lstm_operands(shape, batch), list(range(1, 9))) == ["NUMPY"]


def test_lstm_of_tflite_leaves_the_rest_to_the_reference() -> None:
    inputs = lstm_operands((6, 2), 2)
    for index in (9, 16, 20):
        names = [name if at != index else "extra" for at, name in enumerate([*NAMES, *"----"])]
        shape = (HIDDEN, HIDDEN) if index == 16 else (HIDDEN,)
        given = [random(shape, index) if at == index else x for at, x in enumerate([*inputs, *[None] * 4])]
        assert check(tflite("LSTM", " ".join(names), "Y H C"), given, []) == []
    without = tflite("LSTM", " ".join(NAMES).replace("w0", "-").replace("w4", "-"), "Y H C")
    inputs[1] = inputs[5] = None
    assert check(without, inputs, []) == []


@pytest.mark.parametrize(("activation", "engines"), [("TANH", ["NUMPY"]), ("RELU", ["NUMPY"]), ("RELU6", [])])
@pytest.mark.parametrize("batch", [1, 2])
def test_rnn_of_tflite(activation: str, engines: List[str], batch: int) -> None:
    shapes = [(4, batch, INPUTS), (HIDDEN, INPUTS), (HIDDEN, HIDDEN), (HIDDEN,), (batch, HIDDEN)]
    inputs = [random(shape, seed) / 2 for seed, shape in enumerate(shapes)]
    assert check(tflite("RNN", "X W R B H", "Y h", activation=activation), inputs, [1, 2, 3]) == engines


@pytest.mark.parametrize("batch_first", [0, 1])
@pytest.mark.parametrize("bidirectional", [0, 1])
@pytest.mark.parametrize("has_biases", [0, 1])
@pytest.mark.parametrize(("layers", "batch"), [(1, 1), (2, 2), (4, 1)])
def test_inference_lstm(batch_first: int, bidirectional: int, has_biases: int, layers: int, batch: int) -> None:
    directions = 1 + bidirectional
    inputs = [random((batch, 6, INPUTS) if batch_first else (6, batch, INPUTS), 0)]
    inputs += [random((layers * directions, batch, HIDDEN), 1 + i) for i in range(2)]
    for layer in range(layers):
        for _ in range(directions):
            width = directions * HIDDEN if layer else INPUTS
            shapes = [(4 * HIDDEN, width), (4 * HIDDEN, HIDDEN), *[(4 * HIDDEN,)] * (2 * has_biases)]
            inputs += [random(shape, len(inputs) + i) for i, shape in enumerate(shapes)]
    arguments = {"bidirectional": bidirectional, "batch_first": batch_first, "has_biases": has_biases}
    names = " ".join(f"i{at}" for at in range(len(inputs)))
    op = caffe2("InferenceLSTM", names, "Y h c", num_layers=layers, **arguments)
    assert check(op, inputs, list(range(3, len(inputs)))) == ["NUMPY"]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("batch", "rank", "memory"), [(1, 1, 5), (3, 2, 1), (2, 3, 10)])
def test_svdf(batch: int, rank: int, memory: int, biased: bool) -> None:
    filters = 4 * rank
    shapes = [(batch, filters), (filters, memory), (batch, filters * memory), *[(4,)] * biased]
    inputs = [random(shape, seed) for seed, shape in enumerate(shapes)]
    op = tflite("SVDF", "F W S B" if biased else "F W S", "Y held", rank=rank)
    assert assert_engines_match_reference(op, inputs, terms=rank * memory, amplification=RECURRENCE) == ["NUMPY"]
