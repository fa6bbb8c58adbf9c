"""TensorFlow Lite's recurrent layers RNN, LSTM and SVDF, whose states are inputs and outputs. Domain "tflite".

X: (T, N, I), or with ``time_major`` 0 (N, T, I), or (N, I) for a single step; Y likewise. Weights are float32, or int8
with a scale. The other factor of int8 weights is quantised row by row as in HybridFullyConnected, asymmetrically with
``asymmetric``. ``scales`` holds the scales by input, 0 for floats.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.common.time_steps import by_time
from runtime_arm.operators.quantised.tflite.hybrid import asymmetric_range, extremes, rounded, symmetric_range
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

_NORMALIZER = 1e-8  # added to the variance
Function = Callable[[Array], Array]
Optionals = Sequence[Optional[Array]]


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


_ACTIVATIONS: Dict[str, Function] = {
    "NONE": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "RELU6": lambda x: np.clip(x, 0, 6),
    "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "TANH": np.tanh,
    "SIGMOID": _sigmoid,
}


def _activation(op: OperatorDef) -> Function:
    name = op.get_str("activation", "TANH")
    if name not in _ACTIVATIONS:
        raise ArgumentError(op, f"activation must be one of {', '.join(_ACTIVATIONS)}, got {name!r}")
    return _ACTIVATIONS[name]


def _scales(op: OperatorDef, count: int) -> List[float]:
    scales = list(op.get_floats("scales", [0.0] * count))
    if len(scales) != count or not np.isfinite(scales).all():
        raise ArgumentError(op, f"scales must be {count} finite numbers, got {scales}")
    return scales


class _Products:
    """x @ W.T: float weights in float64, int8 weights with x quantised as TensorFlow Lite does."""

    def __init__(self, op: OperatorDef, inputs: Optionals):
        self._scales = _scales(op, len(inputs))
        self._asymmetric = op.get_bool("asymmetric")
        self._inputs = inputs

    def times(self, x: Array, index: int) -> Any:
        """The product with the weights in this input; 0 if they are left out."""
        w = self._inputs[index]
        if w is None:
            return 0
        if w.dtype != np.int8:
            return x @ w.astype(np.float64).T
        rows, scale = x.astype(np.float32), np.float32(self._scales[index])
        result = np.empty((len(rows), len(w)))
        for row, out in zip(rows, result):
            limits = asymmetric_range if self._asymmetric else symmetric_range
            step, inverse, zero = limits(*extremes(row))
            q, work = np.empty_like(row), np.empty_like(row)
            rounded(row, inverse, np.float32(zero), -128 if self._asymmetric else -127, q, work)
            out[:] = (w.astype(np.int64) @ q.astype(np.int64)) * (step * scale)
        return result

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return self._inputs[index] is not None

    def vector(self, index: int) -> Any:
        """A vector of weights as real numbers; None if it is left out."""
        w = self._inputs[index]
        if w is None:
            return None
        return w.astype(np.float64) * (self._scales[index] if w.dtype.kind == "i" else 1)


def _as_given(op: OperatorDef, x: Array, steps: Sequence[Array]) -> Array:
    y = np.array(steps, np.float32)
    return y[0] if x.ndim == 2 else y if op.get_bool("time_major", True) else np.ascontiguousarray(y.swapaxes(0, 1))


def _checked_shape(op: OperatorDef, x: TensorSpec, states: Sequence[Optional[TensorSpec]]) -> Tuple[int, ...]:
    """The dimensions of X except the last. ShapeError unless the batches agree."""
    require(op, x.ndim in (2, 3), "X must have two or three dimensions", x)
    batch = x.shape[0 if x.ndim == 2 or not op.get_bool("time_major", True) else 1]
    for state in states:
        require(
            op,
            state is not None and state.ndim == 2 and state.shape[0] == batch,
            f"states must be matrices of {batch} rows",
            x,
            *states,
        )
    return x.shape[:-1]


@operator("RNN", domain="tflite", inputs=5, outputs=2, dtypes=("float32",), multiply_adds=per_row(1, 2, dims=-1))
def rnn(op: OperatorDef, x: TensorSpec, w: TensorSpec, r: TensorSpec, b: TensorSpec, h: TensorSpec) -> List[TensorSpec]:
    """Y, h: h = activation(X W^T + h R^T + b). W: (H, I), R: (H, H), b: (H), h: (N, H). Source: kernel_utils.cc."""
    lead, hidden = _checked_shape(op, x, [h]), h.shape[1]
    _activation(op)
    _scales(op, 5)
    require(
        op,
        w.shape == (hidden, x.shape[-1]) and r.shape == (hidden, hidden) and b.shape == (hidden,),
        "weights and bias must fit X and the state",
        x,
        w,
        r,
        b,
        h,
    )
    return [x.with_shape((*lead, hidden)), h]


@rnn.reference
def rnn_reference(op: OperatorDef, x: Array, w: Array, r: Array, b: Array, h: Array) -> List[Any]:
    products, activation, state = _Products(op, [x, w, r, b, h]), _activation(op), h.astype(np.float64)
    steps = []
    for step in by_time(op, x):
        state = activation(b + products.times(step, 1) + products.times(state, 2))
        steps.append(state)
    return [_as_given(op, x, steps), state.astype(np.float32)]


# The indices of an LSTM's inputs; of four, in the order i, f, c, o.
_INPUT, _RECURRENT, _CELL, _BIAS, _NORM = 1, 5, 9, 12, 20
_PROJECTION, _PROJECTION_BIAS, _HIDDEN, _STATE = 16, 17, 18, 19
_INPUTS = 24
_I, _F, _C, _O = range(4)


@operator(
    "LSTM",
    domain="tflite",
    inputs=(20, _INPUTS),
    outputs=3,
    dtypes=("float32",),
    multiply_adds=per_row(*range(_INPUT, _RECURRENT + 4), _PROJECTION, dims=-1),
)
def lstm(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y, h, c of a long short-term memory: i, f, o are the sigmoids of  X W^T + h R^T + c P + b,  g its activation.

    Then c = f c + i g within +-``cell_clip`` and h = (o activation(c)) projected, within +-``proj_clip`` (0: no limit).
    Inputs, i, f, c, o each: X, W (4), R (4), P of i, f, o, b (4), the projection's weights and bias, h, c, and, if
    gates are normalised, their coefficients (4). Without an input gate i = 1 - f. Source: kernels/lstm_eval.cc.
    """
    given = [*inputs, *[None] * (_INPUTS - len(inputs))]
    x, h, c = given[0], given[_HIDDEN], given[_STATE]
    require(op, x is not None and h is not None and c is not None, "X and both states are required", *given)
    assert x is not None
    assert h is not None
    assert c is not None
    lead, cells, size = _checked_shape(op, x, [h, c]), c.shape[1], h.shape[1]
    _activation(op)
    _scales(op, _INPUTS)
    for start, shape in ((_INPUT, (cells, x.shape[-1])), (_RECURRENT, (cells, size)), (_BIAS, (cells,))):
        for gate in range(4):
            spec = given[start + gate]
            fits = gate == _I if spec is None else spec.shape == shape
            require(op, fits, f"input {start + gate} must have the shape {shape}", spec)
    projection = given[_PROJECTION]
    require(
        op,
        size == cells if projection is None else projection.shape == (size, cells),
        "states of different sizes need a projection that fits both",
        h,
        c,
        projection,
    )
    return [x.with_shape((*lead, size)), h, c]


@lstm.reference
def lstm_reference(op: OperatorDef, *inputs: Optional[Array]) -> List[Any]:
    given = [*inputs, *[None] * (_INPUTS - len(inputs))]
    x, hidden, cell = given[0], given[_HIDDEN], given[_STATE]
    assert x is not None
    assert hidden is not None
    assert cell is not None
    products, h, c = _Products(op, given), hidden.astype(np.float64), cell.astype(np.float64)
    steps = []
    for step in by_time(op, x):
        h, c = _lstm_step(op, products, step, h, c)
        steps.append(h)
    return [_as_given(op, x, steps), h.astype(np.float32), c.astype(np.float32)]


def _lstm_step(op: OperatorDef, products: _Products, x: Array, h: Array, c: Array) -> Tuple[Array, Array]:
    activation = _activation(op)

    def gate(number: int, function: Function, cell: Array) -> Array:
        total = products.times(x, _INPUT + number) + products.times(h, _RECURRENT + number)
        peephole = None if number == _C else products.vector(_CELL + (2 if number == _O else number))
        if peephole is not None:
            total = total + cell * peephole
        coefficients, bias = products.vector(_NORM + number), products.vector(_BIAS + number)
        if coefficients is not None:
            centred = total - total.mean(1, keepdims=True)
            total = centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + _NORMALIZER) * coefficients
        return function(total if bias is None else total + bias)

    f = gate(_F, _sigmoid, c)
    i = gate(_I, _sigmoid, c) if products.has(_INPUT + _I) else 1 - f
    c = _limited(f * c + i * gate(_C, activation, c), op.get_float("cell_clip", 0.0))
    out = gate(_O, _sigmoid, c) * activation(c)
    if not products.has(_PROJECTION):
        return out, c
    bias = products.vector(_PROJECTION_BIAS)
    projected = products.times(out, _PROJECTION) + (0 if bias is None else bias)
    return _limited(projected, op.get_float("proj_clip", 0.0)), c


def _limited(x: Array, limit: float) -> Array:
    return np.clip(x, -limit, limit) if limit > 0 else x


@operator("SVDF", domain="tflite", inputs=(3, 4), outputs=2, dtypes=("float32",), multiply_adds=per_row(1, dims=1))
def svdf(
    op: OperatorDef, features: TensorSpec, w: TensorSpec, state: TensorSpec, b: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y (N, F / rank) and the new state. The state drops its oldest features and takes in these, (N, F).

    The state, (N, F * M), holds the last M of each feature. Y sums their products with W (F, M), ``rank`` neighbouring
    filters together, plus b. Source: kernels/internal/reference/svdf.h; Nakkiran et al., Compressing Deep Neural
    Networks using a Rank-Constrained Topology (2015).
    """
    rank = op.get_int("rank")
    require(
        op,
        features.ndim == w.ndim == 2 and features.shape[1] == w.shape[0],
        "features must be (N, F) and W (F, M)",
        features,
        w,
    )
    require(op, rank > 0 and w.shape[0] % rank == 0, f"rank {rank} must divide the number of filters", w)
    require(op, state.shape == (features.shape[0], w.size), "the state must be (N, F * M)", features, w, state)
    units = w.shape[0] // rank
    require(op, b is None or b.shape == (units,), f"the bias must have {units} elements", b)
    return [features.with_shape((features.shape[0], units)), state]


@svdf.reference
def svdf_reference(op: OperatorDef, features: Array, w: Array, state: Array, b: Optional[Array] = None) -> List[Any]:
    batch, (filters, memory) = len(features), w.shape
    held = np.concatenate([state.reshape(batch, filters, memory)[..., 1:], features[..., np.newaxis]], axis=2)
    sums = np.einsum("nfm,fm->nf", held.astype(np.float64), w.astype(np.float64))
    y = sums.reshape(batch, -1, op.get_int("rank")).sum(2)
    return [(y if b is None else y + b).astype(np.float32), held.reshape(batch, -1)]
