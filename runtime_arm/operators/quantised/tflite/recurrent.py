"""TensorFlow Lite's recurrent layers of integers: SVDF, and LSTM of int8 with cells of int16. Exact to the last bit.
The LSTM computes with quotients of scales in float32.

X: (T, N, I), or with ``time_major`` 0 (N, T, I), or (N, I) for a single step; Y likewise. States are inputs and
outputs.

Source: LiteRT, kernels/svdf.cc with internal/reference/svdf.h, kernels/lstm.cc and lstm_eval.cc with
internal/reference/portable_tensor_utils.cc.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.quantised.fixed_point import divide_by_power, inverse_square_root
from runtime_arm.operators.quantised.fixed_point_int16 import looked_up, sigmoid_table, tanh_table
from runtime_arm.operators.quantised.rounding import RULES, FixedPoint, double_rounding, fixed_point
from runtime_arm.operators.quantised.tflite.interpolation import power_of_two
from runtime_arm.operators.quantised.tflite.parameters import affine, limits_of, multiplied, quantised
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import require
from runtime_arm.registry.specs import TensorSpec

_INT8, _INT16 = limits_of(np.int8), limits_of(np.int16)


@quantised("QuantizedSVDF", inputs=(4, 5), outputs=2, dtypes=("int8",), multiply_adds=per_row(1, 2, dims=1))
def quantized_svdf(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    times: TensorSpec,
    state: TensorSpec,
    b: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """SVDF: Y (N, F / rank) and the new state. X (N, I), W (F, I) int8, times (F, M) int16, b int32, state (N, F * M).

    X W^T, requantised to the int16 of the state (scale ``state_scale``), pushes out the oldest of M features. Y sums
    the products with the times, ``rank`` neighbouring filters together, plus b. ``W_scale``, ``times_scale``.
    """
    rank = op.get_int("rank")
    fits = x.ndim == w.ndim == times.ndim == 2 and x.shape[1] == w.shape[1] and w.shape[0] == times.shape[0]
    require(op, fits, "X must be (N, I), the weights (F, I) and (F, M)", x, w, times)
    require(op, w.dtype == np.int8 and times.dtype == state.dtype == np.int16, "types must be int8 and int16", w, times)
    require(op, rank > 0 and w.shape[0] % rank == 0, f"rank {rank} must divide the number of filters", w)
    require(op, state.shape == (x.shape[0], times.size), "the state must be (N, F * M)", x, times, state)
    units = w.shape[0] // rank
    require(op, b is None or (b.shape == (units,) and b.dtype == np.int32), f"the bias must be {units} int32", b)
    for what, dtype in (("X", x.dtype), ("Y", x.dtype), ("W", np.int8), ("times", np.int16), ("state", np.int16)):
        affine(op, what, dtype)
    return [x.with_shape((x.shape[0], units)), state]


def svdf_multipliers(op: OperatorDef) -> Tuple[Any, Any]:
    """By what the sums over X, and those over the states, are multiplied."""
    scales = [np.float64(affine(op, what, np.int16).scale) for what in ("W", "times", "state")]
    of_x, of_y = (np.float64(affine(op, what, np.int8).scale) for what in "XY")
    return of_x * scales[0] / scales[2], scales[2] * scales[1] / of_y


@quantized_svdf.reference
def quantized_svdf_reference(
    op: OperatorDef, x: Array, w: Array, times: Array, state: Array, b: Optional[Array] = None
) -> List[Any]:
    of_x, of_y = affine(op, "X", np.int8), affine(op, "Y", np.int8)
    first, second = svdf_multipliers(op)
    sums = (x.astype(np.int64) - of_x.zero_point) @ w.astype(np.int64).T
    newest = np.clip(multiplied(sums, first), *_INT16)
    batch, (filters, memory) = len(x), times.shape
    held = np.concatenate([state.reshape(batch, filters, memory)[..., 1:], newest[..., np.newaxis]], axis=2)
    totals = (held * times.astype(np.int64)).sum(2).reshape(batch, -1, op.get_int("rank")).sum(2)
    totals = totals if b is None else totals + b
    steps = multiplied(totals, second) + of_y.zero_point
    return [np.clip(steps, *_INT8).astype(np.int8), held.astype(np.int16).reshape(batch, -1)]


# The indices of an LSTM's inputs; of four, in the order i, f, c, o; see the float LSTM.
_INPUT, _RECURRENT, _CELL, _BIAS, _NORM = 1, 5, 9, 12, 20
_PROJECTION, _PROJECTION_BIAS, _HIDDEN, _STATE = 16, 17, 18, 19
_INPUTS = 24
_I, _F, _C, _O = range(4)
GATE_BITS = 3  # before the point of what goes into a gate's sigmoid: Q3.12
_NORM_BITS = 10  # after the point of a normalised gate
Optionals = Sequence[Optional[Array]]


def _float_list(op: OperatorDef, name: str, count: int) -> List[Any]:
    values = np.array(op.get_floats(name), np.float32)
    if len(values) != count or not bool(np.all(np.isfinite(values) & (values >= 0))):
        raise ArgumentError(op, f"{name} must be {count} numbers that are not negative, got {values.tolist()}")
    return list(values)


def cell_power(op: OperatorDef) -> int:
    """The power of two that the scale of the cells is."""
    power, exact = power_of_two(affine(op, "C", np.int16).scale)
    if not exact or not -15 <= power <= -9:
        raise ArgumentError(op, f"C_scale must be a power of two from 2**-15 to 2**-9, got {op.get_float('C_scale')}")
    return power


def cell_limits(op: OperatorDef) -> Tuple[int, int]:
    """The least and the largest number that a cell may hold."""
    limit = op.get_float("cell_clip", 0.0)
    if limit <= 0:
        return _INT16
    most = int(np.clip(np.float32(limit) / affine(op, "C", np.int16).scale, *_INT16))
    return -most, most


@quantised(
    "QuantizedLSTM",
    inputs=(20, _INPUTS),
    outputs=3,
    dtypes=("int8",),
    multiply_adds=per_row(*range(_INPUT, _RECURRENT + 4), _PROJECTION, dims=-1),
)
def quantized_lstm(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y, h, c of an LSTM: the inputs are those of the float LSTM. X, h, Y and matrices are int8, c, peepholes and the
    coefficients of normalised gates int16, biases int32.

    X_, H_ and hidden_ scale and zero_point: of X, of h and Y, and of what is projected. C_scale: of the cells, a power
    of two. ``scales``: of the weights, by input. ``gate_scales``: the scales of normalised gates, i, f, c, o; others
    are in Q3.12. cell_clip, proj_clip: in real numbers, 0 for none.
    """
    given = [*inputs, *[None] * (_INPUTS - len(inputs))]
    x, h, c = given[0], given[_HIDDEN], given[_STATE]
    require(op, x is not None and h is not None and c is not None, "X and both states are required", *given)
    assert x is not None
    assert h is not None
    assert c is not None
    require(op, x.ndim in (2, 3) and h.ndim == c.ndim == 2, "X must have two or three dimensions, states two", x, h, c)
    require(op, h.dtype == np.int8 and c.dtype == np.int16, "the states must be int8 and int16", h, c)
    batch = x.shape[0 if x.ndim == 2 or not op.get_bool("time_major", True) else 1]
    require(op, h.shape[0] == c.shape[0] == batch, f"states must be matrices of {batch} rows", x, h, c)
    cells, size = c.shape[1], h.shape[1]
    for start, shape, dtype in (
        (_INPUT, (cells, x.shape[-1]), np.int8),
        (_RECURRENT, (cells, size), np.int8),
        (_BIAS, (cells,), np.int32),
    ):
        for gate in range(4):
            spec = given[start + gate]
            fits = gate == _I if spec is None else spec.shape == shape and spec.dtype == dtype
            require(op, fits, f"input {start + gate} must be {np.dtype(dtype).name}{list(shape)}", spec)
    projection = given[_PROJECTION]
    fits = size == cells if projection is None else projection.shape == (size, cells) and projection.dtype == np.int8
    require(op, fits, "states of different sizes need a projection that fits both", h, c, projection)
    for what, dtype in (("X", np.int8), ("H", np.int8), ("hidden", np.int8)):
        affine(op, what, dtype)
    _float_list(op, "scales", _INPUTS)
    _float_list(op, "gate_scales", 4)
    cell_power(op)
    return [x.with_shape((*x.shape[:-1], size)), h, c]


class _Network(NamedTuple):
    """The layer's constants. ``given``: its inputs as int64."""

    op: OperatorDef
    given: List[Any]
    scales: List[Any]
    gate_scales: List[Any]
    power: int

    @property
    def normalised(self) -> bool:
        return self.given[_NORM + _F] is not None

    def product(self, x: Array, zero_point: int, index: int, multiplier: Any, bias: Optional[Array] = None) -> Array:
        """(x - zero_point) W^T + bias, rescaled."""
        sums = (x - zero_point) @ self.given[index].T
        return multiplied(sums if bias is None else sums + bias, multiplier)

    def gate(self, number: int, x: Array, h: Array, c: Array) -> Array:
        """What goes into the function of a gate, int16."""
        of_x, of_h = affine(self.op, "X", np.int8), affine(self.op, "H", np.int8)
        unit = self.gate_scales[number] if self.normalised else np.float32(2.0**-12)
        bias = self.given[_BIAS + number]
        w_scale, r_scale = self.scales[_INPUT + number], self.scales[_RECURRENT + number]
        first = None if self.normalised else bias
        total = self.product(x, of_x.zero_point, _INPUT + number, w_scale * of_x.scale / unit, first)
        total = np.clip(total, *_INT16)
        more = self.product(h, of_h.zero_point, _RECURRENT + number, r_scale * of_h.scale / unit)
        total = np.clip(total + more, *_INT16)
        place = _CELL + (2 if number == _O else number)
        if number != _C and self.given[place] is not None:
            scale = np.float32(2.0**self.power * np.float64(self.scales[place]) / np.float64(unit))
            total = np.clip(total + self._peephole(self.given[place], c, h.shape[1], scale), *_INT16)
        return self._normalised(number, total, bias) if self.normalised else total

    def _peephole(self, weights: Array, c: Array, size: int, scale: Any) -> Array:
        """The cells times the weights. LiteRT takes the rows of c to be as long as those of h, ``size``.

        It computes all samples of a step at once if the time comes first, else one after the other.
        """
        rows = c.reshape(1, -1) if self.op.get_bool("time_major", True) else c
        count = c.size // len(rows) // c.shape[1] * size
        met = np.zeros(rows.shape, np.int64)
        met[:, :count] = rows[:, :count] * np.tile(weights[:size], count // size)
        return multiplied(met.reshape(c.shape), scale)

    def _normalised(self, number: int, total: Array, bias: Array) -> Array:
        """Each row with mean 0 and variance 1, times the coefficients, plus the bias, in Q3.12."""
        coefficients, scale = self.given[_NORM + number], self.scales[_NORM + number]
        count, unit = total.shape[1], 1 << (2 * _NORM_BITS)
        mean = _quotient(total.sum(1) << _NORM_BITS, count)
        variance = _quotient((total**2).sum(1) * (unit // count) - mean**2, unit)
        guard = max(1, int(np.float32(10000) * np.float32(scale)))
        inverses = inverse_square_root(np.where(variance < 1, guard, variance)[:, np.newaxis])
        work = np.empty(total.shape, np.int64), np.empty(total.shape, np.int64)
        multiplier = double_rounding(FixedPoint(*inverses))
        RULES["tflite_ref"].scale((total << _NORM_BITS) - mean[:, np.newaxis], multiplier, work)
        scaled = work[0] * coefficients + bias
        steps = _quotient(scaled + np.where(scaled > 0, 1, -1) * (1 << (_NORM_BITS - 1)), 1 << _NORM_BITS)
        fixed = fixed_point(scale)
        RULES["tflite_ref"].scale(steps, double_rounding(fixed._replace(exponent=fixed.exponent + 12)), work)
        return np.asarray(np.clip(work[0], *_INT16))


def _quotient(values: Array, divisor: int) -> Array:
    """Rounded towards zero."""
    return np.asarray(np.sign(values) * (np.abs(values) // divisor))


def _step(net: _Network, x: Array, h: Array, c: Array) -> Any:
    op, sigmoid = net.op, sigmoid_table(GATE_BITS)
    forget = looked_up(sigmoid, net.gate(_F, x, h, c))
    kept = net.given[_INPUT + _I]
    given = looked_up(sigmoid, net.gate(_I, x, h, c)) if kept is not None else _INT16.high - forget
    new = looked_up(tanh_table(GATE_BITS), net.gate(_C, x, h, c))
    c = divide_by_power(forget * c, 15) + divide_by_power(given * new, 30 + net.power)
    c = np.clip(c, *cell_limits(op))
    out = looked_up(sigmoid, net.gate(_O, x, h, c))
    hidden, of_h = affine(op, "hidden", np.int8), affine(op, "H", np.int8)
    active = looked_up(tanh_table(15 + net.power), c)
    scale = np.float32(2.0**-15 / np.float64(hidden.scale) * 2.0**-15)
    values = multiplied(out * active, scale)
    if net.given[_PROJECTION] is None:
        return np.clip(values + hidden.zero_point, *_INT8), c
    values = np.clip(values - hidden.zero_point, *_INT8)  # LiteRT's sign; it matters where this saturates
    scale = net.scales[_PROJECTION] * hidden.scale / of_h.scale
    h = net.product(values, -hidden.zero_point, _PROJECTION, scale, net.given[_PROJECTION_BIAS]) + of_h.zero_point
    h, limit = np.clip(h, *_INT8), op.get_float("proj_clip", 0.0)
    if limit > 0:
        most = int(np.clip(np.float32(limit) / of_h.scale, *_INT8))
        h = np.clip(h, -most, most)
    return h, c


@quantized_lstm.reference
def quantized_lstm_reference(op: OperatorDef, *inputs: Optional[Array]) -> List[Any]:
    given: List[Any] = [None if array is None else array.astype(np.int64) for array in inputs]
    given += [None] * (_INPUTS - len(given))
    scales, gates = _float_list(op, "scales", _INPUTS), _float_list(op, "gate_scales", 4)
    net = _Network(op, given, scales, gates, cell_power(op))
    x, h, c = given[0], given[_HIDDEN], given[_STATE]
    batch_first = x.ndim == 3 and not op.get_bool("time_major", True)
    steps = []
    for step in x[np.newaxis] if x.ndim == 2 else x.swapaxes(0, 1) if batch_first else x:
        h, c = _step(net, step, h, c)
        steps.append(h)
    y = np.array(steps, np.int8).reshape(len(steps), *h.shape)
    whole = y[0] if x.ndim == 2 else np.ascontiguousarray(y.swapaxes(0, 1)) if batch_first else y
    return [whole, h.astype(np.int8), c.astype(np.int16)]
