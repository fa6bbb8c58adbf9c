"""Fast kernels of TensorFlow Lite's float LSTM, RNN and SVDF."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.time_steps import aged, by_time
from runtime_arm.operators.recurrent import cells
from runtime_arm.operators.recurrent.tflite import lstm, rnn, svdf
from runtime_arm.operators.recurrent.unrolled import Side, scratch_of, unrolled
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import EINSUM, Step, in_turn, into

GATES = (1, 2, 3, 0)  # of TensorFlow Lite's order i, f, c, o: the slot of each, in the order o, i, f, c
_EXTRAS = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, normalisation
_HIDDEN, _CELL = 18, 19


def padded(inputs: Sequence[Any]) -> List[Any]:
    return [*inputs, *[None] * (24 - len(inputs))]


def refuses_extras(op: OperatorDef, given: Sequence[Any]) -> Optional[str]:
    """Why an LSTM with these 24 inputs is not the plain one; None if it is."""
    if any(given[index] is not None for index in _EXTRAS):
        return "only without peepholes, projection and normalisation"
    if any(given[index] is None for index in range(1, 9)):
        return "only with an input gate"
    return None if op.get_str("activation", "TANH") == "TANH" else "only for tanh"


def refuses_activation(op: OperatorDef) -> Optional[str]:
    """Why an RNN has another activation than the usual ones; None if it has one of them."""
    return None if op.get_str("activation", "TANH") in ("TANH", "RELU") else "only for tanh and ReLU"


def _lstm_refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return refuses_extras(op, padded(inputs)) or _refuses(inputs, outputs)


def _rnn_refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return refuses_activation(op) or _refuses(inputs, outputs)


def _refuses(inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if any(spec is not None and spec.dtype != np.float32 for spec in inputs):
        return "only for float weights"
    return "there is nothing to compute" if any(spec.size == 0 for spec in outputs) else None


def cell_of(op: OperatorDef) -> cells.Cell:
    if op.type == "LSTM":
        return cells.lstm(max(op.get_float("cell_clip", 0.0), 0.0))
    return cells.rnn(np.tanh if op.get_str("activation", "TANH") == "TANH" else None)


def sizes_of(op: OperatorDef, y: TensorSpec) -> Tuple[int, int, int]:
    """Time steps, batch and hidden size."""
    if y.ndim == 2:
        return 1, y.shape[0], y.shape[1]
    steps, batch = y.shape[:2] if op.get_bool("time_major", True) else y.shape[1::-1]
    return steps, batch, y.shape[2]


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return scratch_of(cell_of(op), *sizes_of(op, outputs[0]), outputs[0].dtype)


@lstm.kernel("NUMPY", supports=_lstm_refuses, scratch=_scratch, splits_work=True)
def lstm_numpy(call: Call) -> Run:
    given, specs = padded(call.inputs), padded(call.in_specs)
    inputs, recurrent, biases = (
        [(slot, given[first + gate]) for gate, slot in enumerate(GATES) if given[first + gate] is not None]
        for first in (1, 5, 12)
    )
    first = given[_HIDDEN], given[_CELL]
    x, y = (by_time(call.op, one) for one in (given[0], call.outputs[0]))
    side = Side(x, y, inputs, recurrent, biases, first, call.outputs[1:], False)
    known = [specs[index] for index in (*range(5, 9), *range(12, 16))]
    return unrolled(call, cell_of(call.op), [side], all(spec is None or spec.value is not None for spec in known))


@rnn.kernel("NUMPY", supports=_rnn_refuses, scratch=_scratch, splits_work=True)
def rnn_numpy(call: Call) -> Run:
    given, w, r, b, h = call.inputs
    x, y = (by_time(call.op, one) for one in (given, call.outputs[0]))
    side = Side(x, y, [(0, w)], [(0, r)], [(0, b)], [h], call.outputs[1:], False)
    constant = all(spec is not None and spec.value is not None for spec in call.in_specs[2:4])
    return unrolled(call, cell_of(call.op), [side], constant)


@svdf.kernel("NUMPY", supports=lambda op, inputs, outputs: _refuses(inputs, outputs))
def svdf_numpy(call: Call) -> Run:
    features, w, state, b = [*call.inputs, None][:4]
    y, held = call.outputs
    newest = held.reshape(len(features), *w.shape)[..., -1]
    memory, weights = held.reshape(*y.shape, -1), w.reshape(y.shape[1], -1)
    steps: List[Step] = [
        aged(state, held),
        partial(np.copyto, newest, features),
        partial(EINSUM, "buk,uk->bu", memory, weights, out=y),
    ]
    if b is not None:
        steps.append(into(np.add, y, b, y))
    return in_turn(steps)
