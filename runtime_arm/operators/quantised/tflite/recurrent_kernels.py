"""INT8: TensorFlow Lite's LSTM and SVDF of integers, to the last bit. Sums are exact in float32, or else in float64.

In an LSTM, one product multiplies the inputs of a block of time steps with the weights of all gates, and another one
the states of a step. Gates are stored as o, i, f, g, followed by the cells, as in the float LSTM: pairs that are
multiplied are neighbours.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.time_steps import aged, by_time
from runtime_arm.operators.quantised.fixed_point_int16 import sigmoid_table, tanh_table
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.rounding import requantizer
from runtime_arm.operators.quantised.tflite.parameters import affine, limits_of
from runtime_arm.operators.quantised.tflite.recurrent import (
    GATE_BITS,
    cell_limits,
    cell_power,
    quantized_lstm,
    quantized_svdf,
    svdf_multipliers,
)
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_lines, shaped

_ORDER = (3, 0, 1, 2)  # TensorFlow Lite's gates are i, f, c, o; the slots here are o, i, f, g
_MATRICES, _RECURRENT, _BIASES, _HIDDEN, _STATE = 1, 5, 12, 18, 19
_WEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15)
_EXTRAS = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, normalisation
_BLOCK = 1 << 13  # sums of a block of time steps: 64 KB of float64
_EXACT = 1 << 24  # float32 holds every integer up to this
_ZERO = 1 << 15  # where 0 is in tables of all 16-bit numbers
_BEYOND = -(1 << 16), 1 << 16  # limits that do not show where a 16-bit number is added and the sum limited to 16 bits
_SIGN = np.dtype(np.intp).itemsize * 8 - 1  # a shift that leaves -1 of negative numbers and 0 of others


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    given = [*inputs, *[None] * (24 - len(inputs))]
    if given[_MATRICES] is None or any(given[index] is not None for index in _EXTRAS):
        return "only with an input gate, and without peepholes, projection and normalisation"
    if not all_known([given[index] for index in _WEIGHTS]):
        return "weights must be constants"
    x = inputs[0]
    assert x is not None
    return "there is nothing to compute" if any(spec.size == 0 for spec in (x, *outputs)) else None


def _sizes(op: OperatorDef, y: TensorSpec) -> Tuple[int, int, int, int]:
    """Time steps, batch, cells, and the time steps of a block."""
    lead = y.shape[:-1] if y.ndim == 3 else (1, y.shape[0])
    steps, batch = lead if y.ndim == 2 or op.get_bool("time_major", True) else lead[::-1]
    return steps, batch, y.shape[-1], max(min(_BLOCK // (4 * batch * y.shape[-1]), steps), 1)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """For products: operands, sums and two buffers to rescale them in.

    Then the gates' inputs for a block; and for a step, its gates' inputs, the gates with the cells, and a pair of them.
    """
    x = inputs[0]
    assert x is not None
    _, batch, cells, rows = _sizes(op, outputs[0])
    operands, sums = max(rows * x.shape[-1], cells) * batch, rows * 4 * batch * cells
    eight = [TensorSpec((size,), np.float64) for size in (operands, sums, sums, sums)]
    whole = [TensorSpec((size * batch * cells,), np.intp) for size in (rows * 4, 4, 5, 2)]
    return [*eight, *whole]


def _reach(weights: Array, zero_point: int, bias: Any) -> int:
    """The largest magnitude of (x - zero_point) W^T + b for x of int8."""
    low, high = limits_of(np.int8)
    return int((np.abs(weights).sum(1) * max(high - zero_point, zero_point - low) + np.abs(bias)).max(initial=0))


def _exact_in(reach: int) -> np.dtype[Any]:
    """The float type that holds every integer up to there."""
    return np.dtype(np.float32 if reach < _EXACT else np.float64)


class _Product:
    """(x - zero_point) W^T + b for all gates, rescaled to Q3.12 within the limits."""

    def __init__(self, call: Call, what: str, first: int, biased: bool, limits: Tuple[int, int]):
        op, given = call.op, call.inputs
        of_x, scales = affine(op, what, np.int8), np.array(op.get_floats("scales"), np.float32)
        weights = np.concatenate([given[first + gate] for gate in _ORDER]).astype(np.int64)
        bias = np.concatenate([given[_BIASES + gate] for gate in _ORDER]).astype(np.int64) * biased
        reach = _reach(weights, of_x.zero_point, bias)
        self.dtype = _exact_in(reach)
        self._weights = in_lines(np.ascontiguousarray(weights.T, self.dtype))
        self._bias = bias.astype(self.dtype) if biased else None
        self._zero_point = np.array([of_x.zero_point], self.dtype)
        multipliers = [[scales[first + gate] * of_x.scale / np.float32(2.0**-12)] for gate in _ORDER]
        self._rescale = requantizer("tflite_ref", multipliers, 0, *limits, reach)

    def bind(self, memory: Sequence[Array], steps: int, batch: int) -> Callable[[Array, Array], None]:
        """The function for this many steps: integers (steps, batch, K) give ``out`` (steps, 4, batch, cells)."""
        depth, width = self._weights.shape
        taken, sums = (buffer.view(self.dtype) for buffer in memory[:2])
        taken, sums = shaped(taken, steps, batch, depth), shaped(sums, steps, batch, width)
        rows, flat = taken.reshape(-1, depth), sums.reshape(-1, width)
        by_gate = sums.reshape(steps, batch, 4, -1)
        work = [buffer.view(name) for buffer, name in zip(memory[2:], self._rescale.work_dtypes)]
        work = [shaped(buffer, *by_gate.shape) for buffer in work]
        weights, bias, zero_point, rescale = self._weights, self._bias, self._zero_point, self._rescale

        def run(integers: Array, out: Array) -> None:
            np.subtract(integers, zero_point, taken)
            np.matmul(rows, weights, flat)
            if bias is not None:
                np.add(flat, bias, flat)
            rescale(by_gate, out.swapaxes(1, 2), work)

        return run


@quantized_lstm.kernel("INT8", supports=_refuses, scratch=_scratch)
def quantized_lstm_int8(call: Call) -> Run:
    op, (steps, batch, cells, rows) = call.op, _sizes(call.op, call.out_specs[0])
    inner = call.packed("X", lambda: _Product(call, "X", _MATRICES, True, limits_of(np.int16)))
    outer = call.packed("H", lambda: _Product(call, "H", _RECURRENT, False, _BEYOND))
    x, y = (by_time(op, array) for array in (call.inputs[0], call.outputs[0]))
    entering = call.scratch[4].reshape(rows, 4, batch, cells)
    blocks: List[Tuple[Any, ...]] = []
    for first in range(0, steps, rows):
        part = slice(first, min(first + rows, steps))
        count = part.stop - first
        project = inner.bind(call.scratch[:4], count, batch)
        blocks.append((project, x[part], entering[:count], list(zip(entering, y[part]))))
    index, gates = shaped(call.scratch[5], 1, 4, batch, cells), call.scratch[6].reshape(5, batch, cells)
    recur, advance = outer.bind(call.scratch[:4], 1, batch), _step(call, index[0], gates)
    hidden, cell, last = call.inputs[_HIDDEN], call.inputs[_STATE], call.outputs[1:]

    def run() -> None:
        h = hidden
        np.copyto(gates[4], cell)
        for project, given, target, each in blocks:
            project(given, target)
            np.add(target, _ZERO, target)
            for drive, result in each:
                recur(h[np.newaxis], index)
                np.add(index[0], drive, index[0])
                advance(result)
                h = result
        np.copyto(last[0], h)
        np.copyto(last[1], gates[4], casting="unsafe")

    return run


def _step(call: Call, index: Array, gates: Array) -> Callable[[Array], None]:
    """The function that takes a step once ``index`` holds what enters the gates, from 0 on, and writes its output.

    gates: o, i, f, g and the cells, which stay there. Sums are limited to 16 bits where they are looked up.
    """
    op, power = call.op, cell_power(call.op)
    tables = sigmoid_table(GATE_BITS), tanh_table(GATE_BITS), tanh_table(15 + power)
    sigmoid, tanh, of_cell = call.packed("tables", lambda: [np.ascontiguousarray(table, np.intp) for table in tables])
    low, high = (np.array(limit, np.intp) for limit in cell_limits(op))
    pair, states, cell, signs = gates[1:3], gates[3:5], gates[4], call.scratch[7].reshape(2, *index.shape[1:])
    shifts = np.array([30 + power, 15], np.intp).reshape(2, 1, 1)
    halves = np.left_shift(1, shifts - 1)
    hidden = affine(op, "hidden", np.int8)
    scale = np.float32(2.0**-15 / np.float64(hidden.scale) * 2.0**-15)
    finish = requantizer("tflite_ref", scale, hidden.zero_point, *limits_of(np.int8), 1 << 30)
    work = [buffer.view(name) for buffer, name in zip(call.scratch[2:4], finish.work_dtypes)]
    work = [shaped(buffer, *cell.shape) for buffer in work]

    def advance(y: Array) -> None:
        sigmoid.take(index[:3], None, gates[:3], "clip")
        tanh.take(index[3], None, gates[3], "clip")
        np.multiply(pair, states, pair)
        np.right_shift(pair, _SIGN, signs)  # halves are rounded away from zero
        np.add(pair, signs, pair)
        np.add(pair, halves, pair)
        np.right_shift(pair, shifts, pair)
        np.add(pair[0], pair[1], cell)
        np.maximum(cell, low, out=cell)
        np.minimum(cell, high, out=cell)
        np.add(cell, _ZERO, index[0])
        of_cell.take(index[0], None, index[1], "clip")
        np.multiply(gates[0], index[1], index[1])
        finish(index[1], y, work)

    return advance


def _svdf_refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if not all_known([*inputs[1:3], *inputs[4:]]):
        return "weights must be constants"
    x = inputs[0]
    assert x is not None
    return "there is nothing to compute" if any(spec.size == 0 for spec in (x, *outputs)) else None


def _svdf_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Operands and sums of the first product, then products with the times and their sums, and two buffers to rescale
    sums in."""
    x, w = inputs[:2]
    assert x is not None
    assert w is not None
    features = x.shape[0] * w.shape[0]
    sizes = x.size, features, outputs[1].size, outputs[0].size, features, features
    return [TensorSpec((size,), np.float64) for size in sizes]


@quantized_svdf.kernel("INT8", supports=_svdf_refuses, scratch=_svdf_scratch)
def quantized_svdf_int8(call: Call) -> Run:
    op, (x, w, times, state, b) = call.op, [*call.inputs, None][:5]
    y, held = call.outputs
    of_x, of_y = affine(op, "X", np.int8), affine(op, "Y", np.int8)
    first, second = svdf_multipliers(op)
    reach = _reach(w.astype(np.int64), of_x.zero_point, 0)
    dtype = _exact_in(reach)
    weights, factors = call.packed("W", lambda: (np.ascontiguousarray(w.T, dtype), times.astype(np.float64)))
    shape = len(x), *times.shape
    after, age = held.reshape(shape), aged(state, held)
    taken = shaped(call.scratch[0].view(dtype), *x.shape)
    sums = shaped(call.scratch[1].view(dtype), len(x), len(w))
    products, totals = call.scratch[2].reshape(shape), call.scratch[3].reshape(y.shape)
    by_unit, zero_point = products.reshape(*y.shape, -1), np.array([of_x.zero_point], dtype)
    ones, column = np.ones((by_unit.shape[2], 1)), totals[..., np.newaxis]
    bias = np.zeros(y.shape[1]) if b is None else b.astype(np.float64)
    most = (1 << 15) * np.abs(factors).reshape(y.shape[1], -1).sum(1) + np.abs(bias)
    newest = requantizer("tflite_ref", first, 0, *limits_of(np.int16), reach)
    finish = requantizer("tflite_ref", second, of_y.zero_point, *limits_of(np.int8), int(most.max()))
    work = [
        [shaped(buffer.view(name), *target.shape) for buffer, name in zip(call.scratch[4:], by.work_dtypes)]
        for by, target in ((newest, sums), (finish, totals))
    ]

    def run() -> None:
        age()
        np.subtract(x, zero_point, taken)
        np.matmul(taken, weights, sums)
        newest(sums, after[..., -1], work[0])
        np.multiply(after, factors, products)
        np.matmul(by_unit, ones, column)
        np.add(totals, bias, totals)
        finish(totals, y, work[1])

    return run
