"""Caffe's LSTM and RNN, over sequences that may end and start again within a batch."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _sequence_shape(
    op: OperatorDef,
    x: TensorSpec,
    cont: TensorSpec,
    hidden: int,
    gates: int,
    w: TensorSpec,
    b: TensorSpec,
    r: TensorSpec,
) -> List[TensorSpec]:
    require(
        op,
        x.ndim >= 2 and cont.shape == x.shape[:2],
        "X must be (T, N, ...), the continuation indicators (T, N)",
        x,
        cont,
    )
    inputs = x.size // max(x.shape[0] * x.shape[1], 1)
    require(op, w.shape == (gates * hidden, inputs), f"the weights must be ({gates * hidden}, {inputs})", x, w)
    require(
        op,
        b.shape == (gates * hidden,) and r.shape == (gates * hidden, hidden),
        f"the bias must have {gates * hidden} elements, the recurrent weights {hidden} columns",
        b,
        r,
    )
    return [x.with_shape((*x.shape[:2], hidden))]


@operator("LSTM", domain="caffe", inputs=(5, 7), multiply_adds=per_row(2, 4, dims=2))
def lstm(
    op: OperatorDef, x: TensorSpec, cont: TensorSpec, w: TensorSpec, b: TensorSpec, r: TensorSpec, *static: TensorSpec
) -> List[TensorSpec]:
    """The hidden state h of a long short-term memory at every step. X: (T, N, ...), Y: (T, N, H).

    cont: (T, N), 0 where a sequence starts. w: (4H, I), b: (4H), r: (4H, H), gates in the order i, f, o, g. The last
    two inputs, if given, are an input that is the same at every step, (N, ...), and its weights. Source: Caffe's
    lstm_layer.cpp; Donahue et al., Long-term Recurrent Convolutional Networks (2015).
    """
    require(op, r.ndim == 2 and len(static) != 1, "the recurrent weights must be a matrix", r, *static)
    return _sequence_shape(op, x, cont, r.shape[1], 4, w, b, r)


def _driven(x: Array, w: Array, b: Array, static: Sequence[Array]) -> Array:
    """The inputs' contribution to the gates: float64 (T, N, gates)."""
    flat = x.astype(np.float64).reshape(*x.shape[:2], -1)
    drive = flat @ w.astype(np.float64).T + b
    if static:
        drive = drive + static[0].astype(np.float64).reshape(x.shape[1], -1) @ static[1].astype(np.float64).T
    return np.asarray(drive)


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


@lstm.reference
def lstm_reference(op: OperatorDef, x: Array, cont: Array, w: Array, b: Array, r: Array, *static: Array) -> List[Any]:
    drive, recurrent = _driven(x, w, b, static), r.astype(np.float64).T
    h = c = np.zeros((x.shape[1], r.shape[1]))
    steps = np.zeros((*x.shape[:2], r.shape[1]), x.dtype)
    for t in range(len(x)):
        goes_on = cont[t][:, None]
        i, f, o, g = np.split(drive[t] + (goes_on * h) @ recurrent, 4, 1)
        c = goes_on * _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        steps[t] = h
    return [steps]


@operator("RNN", domain="caffe", inputs=(7, 9), multiply_adds=per_row(2, 4, 5, dims=2))
def rnn(
    op: OperatorDef,
    x: TensorSpec,
    cont: TensorSpec,
    w: TensorSpec,
    b: TensorSpec,
    r: TensorSpec,
    out: TensorSpec,
    out_bias: TensorSpec,
    *static: TensorSpec,
) -> List[TensorSpec]:
    """o = tanh(out h + out_bias) with h = tanh(w x + r h' + b) at every step. X: (T, N, ...), Y: (T, N, H).

    cont: (T, N), 0 where a sequence starts. w: (H, I), r and out: (H, H). The last two inputs are those of LSTM.
    Source: Caffe's rnn_layer.cpp.
    """
    require(op, r.ndim == 2 and len(static) != 1, "the recurrent weights must be a matrix", r, *static)
    require(
        op, out.shape == r.shape and out_bias.shape == b.shape, "the output's weights or bias do not fit", out, out_bias
    )
    return _sequence_shape(op, x, cont, r.shape[1], 1, w, b, r)


@rnn.reference
def rnn_reference(
    op: OperatorDef, x: Array, cont: Array, w: Array, b: Array, r: Array, out: Array, out_bias: Array, *static: Array
) -> List[Any]:
    drive, recurrent = _driven(x, w, b, static), r.astype(np.float64).T
    h = np.zeros((x.shape[1], r.shape[1]))
    steps = np.zeros((*x.shape[:2], r.shape[1]), x.dtype)
    for t in range(len(x)):
        h = np.tanh(drive[t] + (cont[t][:, None] * h) @ recurrent)
        steps[t] = np.tanh(h @ out.astype(np.float64).T + out_bias)
    return [steps]
