"""The fast kernel of onnxruntime's DynamicQuantizeLSTM: that of LSTM, with rounded inputs and hidden states.

Values are rounded to 8 bits and converted back to float32, and weights become float32 when the net is planned: BLAS has
no products of integers, and this saves the multiplication of the sums at each step.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.recurrent.cells import Cell, Gates, Loop, lstm
from runtime_arm.operators.recurrent.microsoft import dynamic_quantize_lstm, plain, rounded
from runtime_arm.operators.recurrent.onnx_kernels import Parts, lstm_parts, may_end_early, sides_of, usual, work_of
from runtime_arm.operators.recurrent.unrolled import scratch_of, unrolled
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn, shaped

_WEIGHTS = (1, 2, 3, 8, 9, 10, 11)  # inputs that hold weights, biases, scales and zero points
_ZERO, _HIGHEST = np.float32(0), np.float32(255)


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    if x.dtype != np.float32 or op.get_bool("layout"):
        return "only for float32, with the time first"
    if not all_known([inputs[index] for index in _WEIGHTS]):
        return "weights and scales must be constants"
    if x.shape[1] > 1 and may_end_early(op, inputs):
        return "not with several sequences that end early"
    return "there is nothing to compute" if x.size == 0 else usual(plain(op), inputs, outputs)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """What LSTM needs, then rounded inputs and hidden states."""
    x, r = inputs[0], inputs[2]
    assert x is not None
    assert r is not None
    steps, batch, _ = x.shape
    hidden = TensorSpec((batch * r.shape[1],), np.float32)
    return [*scratch_of(lstm(), steps, batch, r.shape[1], np.float32), TensorSpec((x.size,), np.float32), hidden]


@dynamic_quantize_lstm.kernel("NUMPY", supports=_refuses, scratch=_scratch, work=work_of, splits_work=True)
def dynamic_quantize_lstm_numpy(call: Call) -> Run:
    given = call.inputs[0]
    x = call.scratch[2].reshape(given.shape)
    sides = [side._replace(scales=_scales(call, d)) for d, side in enumerate(sides_of(call, x, _parts(call)))]
    if not call.mine(sides):
        return in_turn([])
    round_inputs: Run = partial(rounder(x), given)
    return in_turn([round_inputs, unrolled(call, _rounding(lstm(), call.scratch[3]), sides, True)])


def _parts(call: Call) -> List[Parts]:
    """Weights of inputs in float32, in the order of the slots; recurrent ones are integers, (4 n, n)."""
    _, w, r, b = call.inputs[:4]
    parts = []
    for d in range(len(w)):
        inputs = call.packed(f"W {d}", partial(_input_weights, w[d].T, *_by_rows(call, d, 8)))
        vectors = [] if b is None else [part for half in np.split(b[d], 2) for part in lstm_parts(half)]
        parts.append(([(0, inputs)], lstm_parts(r[d].T), vectors))
    return parts


def _by_rows(call: Call, d: int, index: int) -> List[Array]:
    """Scales and zero points of a direction's weights, (4 n), whose inputs begin at ``index``."""
    rows = call.inputs[1].shape[2]
    return [np.broadcast_to(values[d], rows).astype(np.float32) for values in call.inputs[index : index + 2]]


def _input_weights(integers: Array, scales: Array, zero_points: Array) -> Array:
    weights = np.empty(integers.shape, np.float32)
    n = len(weights) // 4
    for (slot, own), (_, scale), (_, zero_point) in zip(*map(lstm_parts, (integers, scales, zero_points))):
        target = weights[slot * n : slot * n + len(own)]
        np.subtract(own, zero_point[:, np.newaxis], out=target)
        target *= scale[:, np.newaxis]
    return weights


def _scales(call: Call, d: int) -> Any:
    scales, zero_points = map(lstm_parts, _by_rows(call, d, 10))
    return [(first, zero_point, scale) for (first, scale), (_, zero_point) in zip(scales, zero_points)]


def _rounding(cell: Cell, memory: Array) -> Cell:
    """The cell whose products take rounded hidden states; those of all sequences share a scale."""

    def bind(gates: Gates) -> Loop:
        return cell.bind(gates._replace(rounded=rounder(shaped(memory, *gates.gates.shape[1:]))))

    return cell._replace(bind=bind, mixes=True)


def rounder(target: Array) -> Callable[[Array], Array]:
    """A function that writes what 8 bits with one scale say of an array, as ``rounded`` does. It returns the target."""
    steps, scale = target.reshape(-1), np.zeros((), np.float32)

    def run(x: Array) -> Array:
        flat = x.reshape(-1)
        top, bottom = flat.argmax(), flat.argmin()
        high, low = flat[top], flat[bottom]
        one = ((high if high > _ZERO else _ZERO) - (low if low < _ZERO else _ZERO)) / _HIGHEST
        if high == low == 0:
            target.fill(0)
            return target
        if not 0 < one < np.inf or high != high:
            np.copyto(target, rounded(x), casting="same_kind")
            return target
        scale[()] = one
        np.divide(flat, scale, steps)
        np.rint(steps, steps)
        if steps[top] - steps[bottom] > _HIGHEST:  # both ends lie between two integers and were rounded outwards
            np.minimum(steps, steps[bottom] + _HIGHEST, out=steps)
        np.multiply(steps, scale, steps)
        return target

    return run
