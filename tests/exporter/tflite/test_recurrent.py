"""Recurrent layers of TFLite, states included, give LiteRT's results over several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from runtime_arm import Predictor
from tests.support.tflite_models import Model, Quantization, interpreter, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
BATCH, TIME, DEPTH, HIDDEN = 2, 4, 6, 5
MOST_TERMS = 256  # sums over inputs, states and steps


class Weights:
    """Random constants of a model: floats, or int8 with a scale, positive, negative or 0; dtype: what the file calls
    these integers."""

    def __init__(self, model: Model, hybrid: bool = False, dtype: str = "int8"):
        self._model, self._hybrid, self._dtype = model, hybrid, dtype
        self._rng = np.random.default_rng(11)

    def matrix(self, *shape: int) -> int:
        if not self._hybrid:
            return self.vector(*shape)
        values = self._rng.integers(-127, 128, shape).astype(np.int8).view(self._dtype)
        place = len(self._model.tensors)
        scale = [0.004, -0.003, 0.005, 0.0, 0.002][place % 5]
        return self._model.constant(f"w{place}", values, quantization=Quantization([scale]))

    def vector(self, *shape: int) -> int:
        return self._model.constant(f"b{len(self._model.tensors)}", 0.5 * self._rng.standard_normal(shape))

    def state(self, *shape: int) -> int:
        return self._model.tensor(f"s{len(self._model.tensors)}", shape, is_variable=True)


def assert_runs_alike(folder: Path, data: bytes, x: Any) -> None:
    """Three runs, so that the states that one run leaves influence the next."""
    (folder / "model.tflite").write_bytes(data)
    runner = interpreter(data)
    with Predictor(export(folder / "model.tflite"), threads=1) as predictor:
        for factor in (1, -1, 2):
            runner.set_tensor(runner.get_input_details()[0]["index"], factor * x)
            runner.invoke()
            results = predictor.run([factor * x]).values()
            for result, detail in zip(results, runner.get_output_details()):
                assert_close(result, runner.get_tensor(detail["index"]), terms=MOST_TERMS)


def sequence(time_major: bool = False) -> Any:
    shape = (TIME, BATCH, DEPTH) if time_major else (BATCH, TIME, DEPTH)
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def lstm_inputs(
    weights: Weights,
    x: int,
    *,
    cifg: bool = False,
    peephole: bool = False,
    projected: int = 0,
    normalised: bool = False,
) -> List[int]:
    size = projected or HIDDEN
    gates = [-1 if cifg and gate == 0 else weights.matrix(HIDDEN, DEPTH) for gate in range(4)]
    recurrent = [-1 if cifg and gate == 0 else weights.matrix(HIDDEN, size) for gate in range(4)]
    cell = [weights.matrix(HIDDEN) if peephole and not (cifg and i == 0) else -1 for i in range(3)]
    bias = [-1 if cifg and gate == 0 else weights.vector(HIDDEN) for gate in range(4)]
    projection = [weights.matrix(projected, HIDDEN), weights.vector(projected)] if projected else [-1, -1]
    states = [weights.state(BATCH, size), weights.state(BATCH, HIDDEN)]
    norms = [-1 if cifg and gate == 0 else weights.vector(HIDDEN) for gate in range(4)] if normalised else []
    return [x, *gates, *recurrent, *cell, *bias, *projection, *states, *norms]


LSTMS: Dict[str, Dict[str, Any]] = {
    "plain": {},
    "without input gate": {"cifg": True},
    "peephole": {"peephole": True},
    "projected": {"projected": 3},
    "normalised": {"normalised": True},
    "everything": {"peephole": True, "projected": 3, "normalised": True},
}


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("kind", LSTMS)
def test_an_lstm_over_a_sequence(tmp_path: Path, kind: str, time_major: bool) -> None:
    model, values = Model(), sequence(time_major)
    x = model.input("x", values.shape)
    y = model.tensor("y")
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        lstm_inputs(Weights(model), x, **LSTMS[kind]),
        [y],
        "UnidirectionalSequenceLSTMOptions",
        TimeMajor=time_major,
        FusedActivationFunction=4,
        CellClip=0.6,
        ProjClip=0.4,
    )
    assert_runs_alike(tmp_path, model.to_bytes([y]), values)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_an_lstm_with_eight_bit_weights(tmp_path: Path, dtype: str) -> None:
    model, values = Model(), sequence()
    x = model.input("x", values.shape)
    y = model.tensor("y")
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        lstm_inputs(Weights(model, hybrid=True, dtype=dtype), x, projected=3),
        [y],
        "UnidirectionalSequenceLSTMOptions",
        FusedActivationFunction=4,
    )
    assert_runs_alike(tmp_path, model.to_bytes([y]), values)


@pytest.mark.parametrize("merged", [False, True])
def test_an_lstm_in_both_directions(tmp_path: Path, merged: bool) -> None:
    """LiteRT computes merged outputs wrongly with the batch first, so there it runs with the time first."""
    model, values = Model(), sequence(time_major=merged)
    x = model.input("x", values.shape)
    weights, results = Weights(model), [model.tensor(name) for name in ("y", "z")[: 1 if merged else 2]]
    forward, backward = (lstm_inputs(weights, x) for _ in range(2))
    inputs = [*forward[:18], *backward[1:18], *forward[18:20], *backward[18:20], *[-1] * 9]
    model.operator(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        results,
        "BidirectionalSequenceLSTMOptions",
        MergeOutputs=merged,
        TimeMajor=merged,
        FusedActivationFunction=4,
    )
    assert_runs_alike(tmp_path, model.to_bytes(results), values)


def test_a_single_step_of_an_lstm(tmp_path: Path) -> None:
    model, values = Model(), sequence()[:, 0]
    x = model.input("x", values.shape)
    y = model.tensor("y")
    model.operator("LSTM", lstm_inputs(Weights(model), x), [y], "LSTMOptions", FusedActivationFunction=4)
    assert_runs_alike(tmp_path, model.to_bytes([y]), values)


def test_the_basic_form_of_an_lstm(tmp_path: Path) -> None:
    model, values = Model(), sequence()[:, 0]
    x = model.input("x", values.shape)
    weights, shape = Weights(model), (BATCH, HIDDEN)
    inputs = [
        x,
        model.input("h", shape),
        weights.matrix(4 * HIDDEN, DEPTH + HIDDEN),
        weights.vector(4 * HIDDEN),
        model.input("c", shape),
    ]
    outputs = [model.tensor("y", shape), model.tensor("state", shape), model.tensor("joined"), model.tensor("gates")]
    model.operator("LSTM", inputs, outputs, "LSTMOptions", FusedActivationFunction=4, KernelType=1, version=2)
    data = model.to_bytes(outputs[:2])
    feeds = {"x": values, "h": np.full(shape, 0.2, np.float32), "c": np.full(shape, 0.3, np.float32)}
    for result, wanted in zip(ours(tmp_path, data, feeds), reference(data, feeds)):
        assert_close(result, wanted, terms=MOST_TERMS)


RNNS: Dict[str, Callable[[], Any]] = {"RNN": lambda: sequence()[:, 0], "UNIDIRECTIONAL_SEQUENCE_RNN": sequence}


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("type", RNNS)
def test_a_recurrent_layer(tmp_path: Path, type: str, dtype: str) -> None:
    model, values = Model(), RNNS[type]()
    x = model.input("x", values.shape)
    weights, y = Weights(model, dtype != "float32", dtype), model.tensor("y")
    inputs = [
        x,
        weights.matrix(HIDDEN, DEPTH),
        weights.matrix(HIDDEN, HIDDEN),
        weights.vector(HIDDEN),
        weights.state(BATCH, HIDDEN),
    ]
    options = "RNNOptions" if type == "RNN" else "SequenceRNNOptions"
    model.operator(type, inputs, [y], options, FusedActivationFunction=1)
    assert_runs_alike(tmp_path, model.to_bytes([y]), values)


@pytest.mark.parametrize("merged", [False, True])
def test_a_recurrent_layer_in_both_directions(tmp_path: Path, merged: bool) -> None:
    model, values = Model(), sequence()
    x = model.input("x", values.shape)
    weights, results = Weights(model), [model.tensor(name) for name in ("y", "z")[: 1 if merged else 2]]
    inputs = [x]
    for _ in range(2):
        inputs += [
            weights.matrix(HIDDEN, DEPTH),
            weights.matrix(HIDDEN, HIDDEN),
            weights.vector(HIDDEN),
            weights.state(BATCH, HIDDEN),
        ]
    model.operator(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        [*inputs, -1, -1, -1],
        results,
        "BidirectionalSequenceRNNOptions",
        MergeOutputs=merged,
        FusedActivationFunction=4,
    )
    assert_runs_alike(tmp_path, model.to_bytes(results), values)


@pytest.mark.parametrize("hybrid", [False, True])
def test_an_svdf_layer(tmp_path: Path, hybrid: bool) -> None:
    model, values = Model(), sequence()[:, 0]
    x = model.input("x", values.shape)
    weights, y = Weights(model, hybrid), model.tensor("y")
    inputs = [
        x,
        weights.matrix(2 * HIDDEN, DEPTH),
        weights.matrix(2 * HIDDEN, 3),
        weights.vector(HIDDEN),
        weights.state(BATCH, 2 * HIDDEN * 3),
    ]
    model.operator("SVDF", inputs, [y], "SVDFOptions", Rank=2, FusedActivationFunction=1, version=2 if hybrid else 1)
    assert_runs_alike(tmp_path, model.to_bytes([y]), values)
