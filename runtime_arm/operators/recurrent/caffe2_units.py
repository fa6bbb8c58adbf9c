"""Caffe2's LSTMUnit and GRUUnit: one time step, given the gates before their activation."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _require_unit(
    op: OperatorDef, states: List[TensorSpec], gates: TensorSpec, count: int, rest: Tuple[TensorSpec, ...]
) -> None:
    """ShapeError unless states are (1, N, D) and gates (1, N, count * D). rest: lengths, unless left out, and step."""
    require_floats(op, *states, gates)
    require(
        op,
        all(state.ndim == 3 and state.shape[0] == 1 and state.shape == states[0].shape for state in states),
        "states must be (1, N, D)",
        *states,
    )
    _, n, d = states[0].shape
    require(op, gates.shape == (1, n, count * d), f"gates must be (1, N, {count} D)", states[0], gates)
    has_lengths = op.get_bool("sequence_lengths", True)
    require(op, len(rest) == 1 + has_lengths, "the lengths must be given, or left out with sequence_lengths=0", *rest)
    require(op, all(spec.dtype == np.int32 for spec in rest), "lengths and time step must be int32", *rest)
    require(op, not has_lengths or rest[0].shape == (n,), "lengths must be (N,)", states[0], rest[0])
    require(op, rest[-1].size > 0, "the time step is missing", rest[-1])


def sigmoid64(x: Array) -> Any:
    return (1 + np.tanh(x / 2)) / 2


def _after_step(op: OperatorDef, old: Array, new: Array, rest: Tuple[Array, ...]) -> Array:
    """The new state where the sequence continues, else the old one, or 0 with drop_states."""
    if len(rest) == 1:
        return new.astype(old.dtype)
    goes_on = (rest[-1].reshape(-1)[0] < rest[0]).reshape(1, -1, 1)
    return np.where(goes_on, new, 0 if op.get_bool("drop_states") else old).astype(old.dtype)


@operator("LSTMUnit", inputs=(4, 5), outputs=2, inplace={0: 0, 1: 1})
def lstm_unit(
    op: OperatorDef, hidden: TensorSpec, cell: TensorSpec, gates: TensorSpec, *rest: TensorSpec
) -> List[TensorSpec]:
    """Hidden and cell state after a step: C = sigmoid(f + forget_bias) C + sigmoid(i) tanh(g), H = sigmoid(o) tanh(C).

    hidden, cell: (1, N, D). gates: (1, N, 4 D), i, f, o, g. Then lengths (N,) and time step, int32. A sequence that has
    ended keeps its state, or loses it with drop_states. With sequence_lengths=0 there are no lengths. Source: Caffe2.
    """
    op.get_float("forget_bias", 0.0)
    _require_unit(op, [hidden, cell], gates, 4, rest)
    return [hidden, cell]


@lstm_unit.reference
def lstm_unit_reference(op: OperatorDef, hidden: Array, cell: Array, gates: Array, *rest: Array) -> List[Any]:
    i, f, o, g = np.split(gates.astype(np.float64), 4, axis=2)
    new_cell = sigmoid64(f + op.get_float("forget_bias", 0.0)) * cell + sigmoid64(i) * np.tanh(g)
    new_hidden = sigmoid64(o) * np.tanh(new_cell)
    return [_after_step(op, hidden, new_hidden, rest), _after_step(op, cell, new_cell, rest)]


@operator("GRUUnit", inputs=(3, 4), inplace={0: 0})
def gru_unit(op: OperatorDef, hidden: TensorSpec, gates: TensorSpec, *rest: TensorSpec) -> List[TensorSpec]:
    """The hidden state after a step: H = sigmoid(z) H + (1 - sigmoid(z)) tanh(h).

    hidden: (1, N, D). gates: (1, N, 3 D), r, z, h; r has been applied before. The rest as in LSTMUnit. Source: Caffe2.
    """
    _require_unit(op, [hidden], gates, 3, rest)
    return [hidden]


@gru_unit.reference
def gru_unit_reference(op: OperatorDef, hidden: Array, gates: Array, *rest: Array) -> List[Any]:
    _, z, h = np.split(gates.astype(np.float64), 3, axis=2)
    return [_after_step(op, hidden, sigmoid64(z) * hidden + (1 - sigmoid64(z)) * np.tanh(h), rest)]
