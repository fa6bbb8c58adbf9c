"""Recurrent layers and units: compared with onnxruntime, engines against reference kernels, refusals."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.recurrent.unrolled import panel_columns
from tests.support.onnx_nodes import onnxruntime_outputs
from tests.support.operands import caffe2, onnx, random

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
OUTPUTS = {"LSTM": "Y H C", "GRU": "Y H", "RNN": "Y H"}
RECURRENCE = 8.0  # rounding errors of a state propagate to the next steps, damped by gates below 1


def layer(type: str, direction: str = "forward", **arguments: Any) -> OperatorDef:
    inputs = "X W R B L H0" + (" C0 P" if type == "LSTM" else "")
    return onnx(type, inputs, OUTPUTS[type], direction=direction, **arguments)


def operands(op: OperatorDef, steps: int = 5, batch: int = 3, size: int = 4, hidden: int = 6) -> List[Any]:
    """All inputs except lengths and peepholes."""
    directions = 2 if op.get_str("direction") == "bidirectional" else 1
    rows, batch_first = GATES[op.type] * hidden, op.get_bool("layout")
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    states = [random(state, seed) for seed in (5, 6)]
    shapes = [
        (batch, steps, size) if batch_first else (steps, batch, size),
        (directions, rows, size),
        (directions, rows, hidden),
        (directions, 2 * rows),
    ]
    first = [random(shape, seed) / 2 for seed, shape in enumerate(shapes)]
    return [*first, None, *([*states, None] if op.type == "LSTM" else states[:1])]


DIRECTIONS = ["forward", "reverse", "bidirectional"]
FLAGS = (st.booleans(),) * 4  # layout, linear_before_reset, neither bias nor state, constant weights
LAYERS = (st.sampled_from(["LSTM", "GRU", "RNN"]), st.sampled_from(DIRECTIONS), *FLAGS)


@settings(max_examples=60)
@given(
    *LAYERS,
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_layers_by_numpy(
    type: str,
    direction: str,
    batch_first: bool,
    reset_last: bool,
    bare: bool,
    known: bool,
    steps: int,
    batch: int,
    hidden: int,
) -> None:
    arguments = {"linear_before_reset": int(reset_last)} if type == "GRU" else {}
    op = layer(type, direction, layout=int(batch_first), **arguments)
    inputs = operands(op, steps, batch, 4, hidden)
    if bare:
        inputs[3:] = [None] * len(inputs[3:])
    constants = [1, 2] + [3] * (not bare) if known else []
    engines = assert_engines_match_reference(op, inputs, terms=16, amplification=RECURRENCE, constants=constants)
    assert engines == ["NUMPY"]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rectified_layers_by_numpy(direction: str) -> None:
    activations = ["Relu"] * (2 if direction == "bidirectional" else 1)
    op = onnx("RNN", "X W R B L H0", OUTPUTS["RNN"], direction=direction, activations=activations)
    found = assert_engines_match_reference(op, operands(op), terms=16, amplification=RECURRENCE)
    assert found == ["NUMPY"]


@settings(max_examples=80)
@given(
    *LAYERS,
    st.integers(1, 60),
    st.lists(st.integers(-1, 70), min_size=1, max_size=4),
)
def test_sequences_that_end_early_by_numpy(
    type: str,
    direction: str,
    batch_first: bool,
    reset_last: bool,
    bare: bool,
    known: bool,
    steps: int,
    lengths: List[int],
) -> None:
    """Over one block of steps and several: ends at 0, within a block, between blocks and beyond the last step."""
    arguments = {"linear_before_reset": int(reset_last)} if type == "GRU" else {}
    op = layer(type, direction, layout=int(batch_first), **arguments)
    hidden = 512 if steps > 40 else 5
    inputs = operands(op, steps, len(lengths), 4, hidden)
    inputs[2] = inputs[2] / np.float32(np.sqrt(hidden))
    if bare:
        inputs[3:] = [None] * len(inputs[3:])
    inputs[4] = np.array(lengths, np.int32)
    found = assert_engines_match_reference(
        op, inputs, terms=hidden, amplification=RECURRENCE, constants=[4] if known else []
    )
    assert found == ["NUMPY"]


@pytest.mark.parametrize(
    "arguments",
    [{"type": "LSTM"}, {"type": "RNN"}, *({"type": "GRU", "linear_before_reset": n} for n in (0, 1))],
    ids=str,
)
def test_weights_in_panels(arguments: Dict[str, Any]) -> None:
    """Where a few sequences meet many weights; a worker with one sequence has them in another order."""
    assert [panel_columns(batch, 512) for batch in (1, 3, 4, 16, 32, 33)] == [512, 512, 64, 64, 32, 512]
    op = layer(direction="bidirectional", **arguments)
    inputs = operands(op, 3, 4, 8, 512)
    inputs[2] = inputs[2] / 16
    assert assert_engines_match_reference(op, inputs, terms=512, amplification=RECURRENCE, constants=[1, 2, 3]) == [
        "NUMPY"
    ]
    one = layer(**arguments)
    inputs = operands(one, 3, 5, 8, 512)
    inputs[2] = inputs[2] / 16
    assert assert_engines_match_reference(one, inputs, terms=512, amplification=RECURRENCE) == ["NUMPY"]


def against_onnxruntime(type: str, lengths: Any, peepholes: bool = False, **arguments: Any) -> None:
    names = f"X W R B {'L' if lengths else '-'} H0" + (f" C0 {'P' if peepholes else '-'}" if type == "LSTM" else "")
    op = onnx(type, names, OUTPUTS[type], hidden_size=6, **{"direction": "forward", **arguments})
    inputs = operands(op)
    inputs[1:4] = [weights / 2 for weights in inputs[1:4]]
    if lengths:
        inputs[4] = np.array(lengths, np.int32)
    if peepholes:
        inputs[7] = random((len(inputs[1]), 18), 9) / 8
    expected = onnxruntime_outputs(op, inputs, [np.float32] * len(op.output))
    for actual, wanted in zip(run_kernel(op, inputs), expected):
        assert_close(actual, wanted, terms=16, amplification=RECURRENCE)


@pytest.mark.parametrize("arguments", [{}, {"peepholes": True}, {"clip": 0.3}, {"input_forget": 1}], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, [5, 2, 1], [5, 0, 1]])
def test_lstm_agrees_with_onnxruntime(arguments: Dict[str, Any], direction: str, lengths: Any) -> None:
    against_onnxruntime("LSTM", lengths, direction=direction, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"activations": ["Relu", "Tanh", "Tanh"]},
        {
            "activations": ["HardSigmoid", "LeakyRelu", "ScaledTanh"],
            "activation_alpha": [0.3, 0.05, 1.2],
            "activation_beta": [0.4, 0.8],
        },
        {
            "activations": ["Affine", "Elu", "ThresholdedRelu"],
            "activation_alpha": [0.5, 0.7, 0.2],
            "activation_beta": [0.1],
        },
        {"activations": ["Sigmoid", "Softsign", "Softplus"]},
    ],
    ids=lambda arguments: "-".join(arguments["activations"]),
)
def test_activations_agree_with_onnxruntime(arguments: Dict[str, Any]) -> None:
    against_onnxruntime("LSTM", None, peepholes=True, **arguments)


@pytest.mark.parametrize("arguments", [{}, {"linear_before_reset": 1}, {"clip": 0.5}], ids=str)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, [5, 2, 1], [5, 0, 1]])
def test_gru_agrees_with_onnxruntime(arguments: Dict[str, Any], direction: str, lengths: Any) -> None:
    against_onnxruntime("GRU", lengths, direction=direction, **arguments)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("lengths", [None, [5, 2, 1], [5, 0, 1]])
def test_rnn_agrees_with_onnxruntime(direction: str, lengths: Any) -> None:
    against_onnxruntime("RNN", lengths, direction=direction, clip=0.5)


def test_an_empty_sequence_ends_in_zeros() -> None:
    op = layer("LSTM")
    inputs = operands(op)
    inputs[4] = np.array([5, 0, 1], np.int32)
    y, h, c = run_kernel(op, inputs)
    assert not any(part.any() for part in (y[:, :, 1], h[:, 1], c[:, 1]))


def test_input_forget_couples_the_gates() -> None:
    op = layer("LSTM", input_forget=1)
    inputs = operands(op, steps=1)
    x, w, r, b, _, h, c, _ = inputs
    gates = x[0] @ w[0].T + h[0] @ r[0].T + b[0, :24] + b[0, 24:]
    i, o = (1 / (1 + np.exp(-gates[:, k : k + 6])) for k in (0, 6))
    cell = (1 - i) * c[0] + i * np.tanh(gates[:, 18:])
    assert_close(run_kernel(op, inputs)[0][0, 0], o * np.tanh(cell), terms=16)


def test_outputs_may_be_left_out() -> None:
    op = OperatorDef.of("LSTM", "XWR", ["", "", "C"], domain="onnx")
    inputs = operands(layer("LSTM"))[:3]
    whole = run_kernel(onnx("LSTM", "X W R", "Y H C"), inputs)
    np.testing.assert_array_equal(run_kernel(op, inputs)[2], whole[2])


UNIT = caffe2("LSTMUnit", "h c g l t", "H C")
STATES = [random((1, 2, 3), seed) for seed in (0, 1)]
ENDS = [np.array([2, 1], np.int32), np.array([1], np.int32)]


def test_units_drop_the_states_of_ended_sequences() -> None:
    inputs = [*STATES, random((1, 2, 12), 2), *ENDS]
    kept, dropped = (run_kernel(UNIT.with_args(drop_states=drop), inputs) for drop in (0, 1))
    for before, one, other in zip(STATES, kept, dropped):
        np.testing.assert_array_equal(one[:, 1], before[:, 1])
        np.testing.assert_array_equal(other[:, 1], 0)
        np.testing.assert_array_equal(one[:, 0], other[:, 0])


def test_units_work_without_lengths() -> None:
    op = caffe2("LSTMUnit", "h c g t", "H C", sequence_lengths=0)
    gates = random((1, 2, 12), 2)
    endless = run_kernel(UNIT, [*STATES, gates, np.array([9, 9], np.int32), ENDS[1]])
    for actual, wanted in zip(run_kernel(op, [*STATES, gates, ENDS[1]]), endless):
        np.testing.assert_array_equal(actual, wanted)


WEIGHTS = operands(layer("LSTM"))
REFUSALS: Dict[str, Any] = {
    r"must be \(1, N, 4 D\)": (ShapeError, UNIT, [*STATES, random((1, 2, 9)), *ENDS]),
    r"states must be \(1, N, D\)": (ShapeError, UNIT, [STATES[0][0], *STATES[1:], random((1, 2, 12)), *ENDS]),
    r"lengths must be \(N,\)": (ShapeError, UNIT, [*STATES, random((1, 2, 12)), ENDS[1], ENDS[1]]),
    "the lengths must be given": (
        ShapeError,
        caffe2("LSTMUnit", "h c g t", "H C"),
        [*STATES, random((1, 2, 12)), ENDS[1]],
    ),
    "must be int32": (ShapeError, UNIT, [*STATES, random((1, 2, 12)), ENDS[0].astype(np.int64), ENDS[1]]),
    "forward, reverse or": (ArgumentError, layer("LSTM", "both"), WEIGHTS),
    "activations must be 3 of": (ArgumentError, layer("LSTM", activations=["Tanh"]), WEIGHTS),
    "'mish'": (ArgumentError, layer("LSTM", activations=["Mish", "Tanh", "Tanh"]), WEIGHTS),
    "hidden_size is 5": (ArgumentError, layer("LSTM", hidden_size=5), WEIGHTS),
    r"B must be \[1, 48\]": (ShapeError, layer("LSTM"), [*WEIGHTS[:3], random((1, 47)), *WEIGHTS[4:]]),
    r"R must be \[1, 24, 6\]": (ShapeError, layer("LSTM"), [*WEIGHTS[:2], random((1, 23, 6)), *WEIGHTS[3:]]),
    r"initial state 1 must be \[1, 3, 6\]": (ShapeError, layer("LSTM"), [*WEIGHTS[:6], random((1, 2, 6)), None]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_two_directions_are_two_workers_parts(direction: str) -> None:
    op = onnx("LSTM", "X W R B", "Y", direction=direction)
    x, *weights = operands(op, steps=300, batch=1, size=16, hidden=128)[:4]
    net = NetDef("layer", (op,), ("X", "W", "R", "B"), ("Y",))
    constants = dict(zip(("W", "R", "B"), weights))
    segment = Executor(net, constants, workers=2).plan({"X": x}, ["Y"])
    assert segment.is_split == (direction == "bidirectional")
