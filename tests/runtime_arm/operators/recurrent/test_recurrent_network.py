"""RecurrentNetwork against a loop over its step, InferenceLSTM against ONNX's LSTM; windows, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from tests.support.exact import assert_same
from tests.support.operands import caffe2, onnx, random

TRAINING = NetDef(op=(OperatorDef.of("NoSuchGradient", ["a"], ["b"]),))


def net(inputs: str, outputs: str, *ops: OperatorDef) -> NetDef:
    return NetDef(op=tuple(ops), external_input=tuple(inputs.split()), external_output=tuple(outputs.split()))


def run(op: OperatorDef, **blobs: Any) -> List[Any]:
    workspace = Workspace()
    for name, value in blobs.items():
        workspace.feed(name, value)
    workspace.run_net_once(NetDef(op=(op,)))
    return [workspace.fetch(name) for name in op.output]


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 3)])
def test_the_step_net_runs_at_each_time_step(shape: Any) -> None:
    step = net(
        "x_t h_prev w t",
        "h",
        caffe2("MatMul", "h_prev w", "p", axis_a=2),
        caffe2("Add", "p x_t", "s"),
        caffe2("Cast", "t", "f", to=1),
        caffe2("Add", "s f", "s2", broadcast=1),
        caffe2("Tanh", "s2", "h"),
    )
    op = caffe2(
        "RecurrentNetwork",
        "x h0 w",
        "all last unused",
        step_net=step,
        timestep="t",
        backward_step_net=TRAINING,
        link_internal=["x_t", "h_prev", "h"],
        link_external=["x", "s", "s"],
        link_offset=[0, 0, 1],
        recurrent_states=["s"],
        initial_recurrent_state_ids=[1],
        alias_src=["s", "s"],
        alias_dst=["all", "last"],
        alias_offset=[1, -1],
    )
    x, h0, w = random((4, 2, 3)), random(shape, 1), random((3, 3), 2)
    everything, last, unused = run(op, x=x, h0=h0, w=w)
    state, expected = np.broadcast_to(h0, (1, 2, 3))[0].astype(np.float64), []
    for t in range(4):
        state = np.tanh(state @ w + x[t] + t)
        expected.append(state)
    assert_close(everything, np.stack(expected).astype(np.float32), terms=12, magnitude=4)
    assert_same(last, everything[-1:])
    assert unused.size == 0


def test_the_step_net_sees_the_surrounding_net() -> None:
    step = net("h", "g", caffe2("Add", "h shift", "g"))
    op = caffe2(
        "RecurrentNetwork",
        "x h0",
        "last",
        step_net=step,
        link_internal=["h", "g"],
        link_external=["s", "s"],
        link_offset=[0, 1],
        recurrent_states=["s"],
        initial_recurrent_state_ids=[1],
        alias_src=["s"],
        alias_dst=["last"],
        alias_offset=[-1],
    )
    op = op.replace(input=("x1", "h0"))
    predict = net("x h0 shift", "y", caffe2("Relu", "x", "x1"), op, caffe2("Add", "last last", "y"))
    with Predictor(NetDef(), predict) as predictor:
        for steps in (3, 5):
            (y,) = predictor.run({"x": random((steps, 1, 2)), "h0": random((1, 2)), "shift": random((2,), 1)}).values()
            assert_close(y[0], 2 * (random((1, 2)) + steps * random((2,), 1)), terms=steps)


def test_windows_cover_several_rows() -> None:
    step = net("w_t", "s", caffe2("ReduceFrontSum", "w_t", "s", num_reduce_dim=1))
    op = caffe2(
        "RecurrentNetwork",
        "x first",
        "y",
        step_net=step,
        link_internal=["w_t", "s"],
        link_external=["states", "states"],
        link_offset=[0, 2],
        link_window=[2, 1],
        recurrent_states=["states"],
        initial_recurrent_state_ids=[1],
        alias_src=["states"],
        alias_dst=["y"],
        alias_offset=[2],
    )
    first = np.array([[[1]], [[2]]], np.float32)
    (y,) = run(op, x=random((5, 1, 1)), first=first)
    assert y.reshape(-1).tolist() == [3, 5, 8, 13, 21]


def test_without_steps_the_state_is_unchanged() -> None:
    step = net("h", "g", caffe2("Tanh", "h", "g"))
    op = caffe2(
        "RecurrentNetwork",
        "x h0",
        "all last",
        step_net=step,
        link_internal=["h", "g"],
        link_external=["s", "s"],
        link_offset=[0, 1],
        recurrent_states=["s"],
        initial_recurrent_state_ids=[1],
        alias_src=["s", "s"],
        alias_dst=["all", "last"],
        alias_offset=[1, -1],
    )
    everything, last = run(op, x=random((0, 1, 2)), h0=random((1, 2), 1))
    assert everything.shape == (0, 1, 2)
    assert_same(last[0], random((1, 2), 1))


def lstm_by_onnx(x: Any, states: Any, weights: List[Any], bidirectional: bool) -> List[Any]:
    """One layer by ONNX's operator, whose gates are i, o, f, c."""

    def sorted_gates(w: Any) -> Any:
        i, f, g, o = np.split(w, 4)
        return np.concatenate([i, o, f, g])

    cells = [weights[at : at + 4] for at in range(0, len(weights), 4)]
    w, r = (np.stack([sorted_gates(cell[k]) for cell in cells]) for k in (0, 1))
    b = np.stack([np.concatenate([sorted_gates(cell[2]), sorted_gates(cell[3])]) for cell in cells])
    op = onnx(
        "LSTM",
        "X W R B - h c",
        "Y Yh Yc",
        hidden_size=states[0].shape[2],
        direction="bidirectional" if bidirectional else "forward",
    )
    y, h, c = run_kernel(op, [x, w, r, b, None, *states])
    return [y.transpose(0, 2, 1, 3).reshape(*y.shape[:1], y.shape[2], -1), h, c]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_stacked_lstm_layers(bidirectional: bool, batch_first: bool) -> None:
    directions, size = 1 + bidirectional, 3
    x, h, c = random((5, 2, 4)), random((2 * directions, 2, size), 1), random((2 * directions, 2, size), 2)
    weights = [
        random(shape, 7 * layer + 3 * d + k) / 2
        for layer, width in enumerate((4, directions * size))
        for d in range(directions)
        for k, shape in enumerate([(4 * size, width), (4 * size, size), (4 * size,), (4 * size,)])
    ]
    names = " ".join(f"w{i}" for i in range(len(weights)))
    op = caffe2(
        "InferenceLSTM",
        f"X h c {names}",
        "Y hn cn",
        num_layers=2,
        has_biases=1,
        batch_first=int(batch_first),
        bidirectional=int(bidirectional),
    )
    given = np.ascontiguousarray(x.swapaxes(0, 1)) if batch_first else x
    y, last_hidden, last_cell = run_kernel(op, [given, h, c, *weights])
    sequence, count = x, 4 * directions
    for layer in range(2):
        own = slice(layer * directions, (layer + 1) * directions)
        sequence, hn, cn = lstm_by_onnx(sequence, [h[own], c[own]], weights[layer * count :][:count], bidirectional)
        assert_close(last_hidden[own], hn, terms=16, magnitude=4)
        assert_close(last_cell[own], cn, terms=16, magnitude=4)
    assert_close(y, sequence.swapaxes(0, 1) if batch_first else sequence, terms=16, magnitude=4)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"link_offset": [0]}, "must have equal lengths"),
        ({"initial_recurrent_state_ids": [2]}, "starts with input 2"),
        ({"link_external": ["s", "nowhere"]}, "nowhere"),
        ({"alias_src": ["nowhere"]}, "nowhere"),
        ({"step_net": net("h", "g", caffe2("ReduceBackSum", "h", "g"))}, "there is room for"),
        ({"step_net": "op { }"}, "step_net"),
    ],
)
def test_refusals_say_why(arguments: Any, rule: str) -> None:
    given = {
        "step_net": net("h", "g", caffe2("Tanh", "h", "g")),
        "link_internal": ["h", "g"],
        "link_external": ["s", "s"],
        "link_offset": [0, 1],
        "recurrent_states": ["s"],
        "initial_recurrent_state_ids": [1],
        "alias_src": ["s"],
        "alias_dst": ["y"],
        "alias_offset": [1],
    }
    op = caffe2("RecurrentNetwork", "x h0", "y", **{**given, **arguments})
    with pytest.raises(OperatorError, match=rule):
        run(op, x=random((2, 1, 2)), h0=random((1, 2)))
