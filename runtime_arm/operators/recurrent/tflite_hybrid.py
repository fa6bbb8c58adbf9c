"""INT8: TensorFlow Lite's LSTM and RNN with 8-bit weights: the float kernels with rounded inputs and states.

Each row of X and of the hidden state is rounded to 8 bits and converted back, as HybridFullyConnected rounds its
factors; weights become float32 when the net is planned.
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.time_steps import by_time
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.operators.quantised.tflite.hybrid import asymmetric_range, rounded, symmetric_range
from runtime_arm.operators.recurrent.cells import Cell, Gates, Loop
from runtime_arm.operators.recurrent.tflite import lstm, rnn
from runtime_arm.operators.recurrent.tflite_kernels import (
    GATES,
    cell_of,
    padded,
    refuses_activation,
    refuses_extras,
    sizes_of,
)
from runtime_arm.operators.recurrent.unrolled import Side, scratch_of, unrolled
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn, shaped

_ALMOST_HALF = np.float32(0.49999997)  # as in ``rounded``
_WEIGHTS = {"LSTM": ((1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)), "RNN": ((1,), (2,), (3,))}
_STATES = {"LSTM": (18, 19), "RNN": (4,)}


def _refuses(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    given = padded(inputs)
    matrices, recurrent, biases = ([given[index] for index in part] for part in _WEIGHTS[op.type])
    reason = refuses_extras(op, given) if op.type == "LSTM" else refuses_activation(op)
    if reason:
        return reason
    if not all_known([*matrices, *recurrent, *biases]):
        return "weights must be constants"
    if any(spec is None or spec.dtype != np.int8 for spec in (*matrices, *recurrent)):
        return "only for matrices of int8"
    if any(spec is not None and spec.dtype != np.float32 for spec in (given[0], *biases)):
        return "only for float biases and inputs"
    x = given[0]
    return "there is nothing to compute" if x.size == 0 or any(spec.size == 0 for spec in outputs) else None


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """What the float kernel needs, then twice rounded inputs and twice rounded states."""
    x = inputs[0]
    assert x is not None
    steps, batch, hidden = sizes_of(op, outputs[0])
    sizes = x.size, x.size, batch * hidden, batch * hidden
    return [*scratch_of(cell_of(op), steps, batch, hidden, np.float32), *[TensorSpec((n,), np.float32) for n in sizes]]


@lstm.kernel("INT8", supports=_refuses, scratch=_scratch)
@rnn.kernel("INT8", supports=_refuses, scratch=_scratch)
def hybrid_int8(call: Call) -> Run:
    op, given = call.op, padded(call.inputs)
    matrices, recurrent, biases = _WEIGHTS[op.type]
    slots = GATES if op.type == "LSTM" else (0,)
    scales = op.get_floats("scales")
    hidden = len(given[recurrent[0]])

    def weights() -> Array:
        """Those of the inputs in float32, in the order of the slots."""
        joined = np.empty((len(slots), hidden, given[0].shape[-1]), np.float32)
        for slot, index in zip(slots, matrices):
            np.multiply(given[index], np.float32(scales[index]), out=joined[slot], dtype=np.float32)
        return joined.reshape(-1, joined.shape[2])

    x, work = (buffer.reshape(given[0].shape) for buffer in call.scratch[2:4])
    side = Side(
        by_time(op, x),
        by_time(op, call.outputs[0]),
        [(0, call.packed("W", weights))],
        [(slot, given[index]) for slot, index in zip(slots, recurrent)],
        [(slot, given[index]) for slot, index in zip(slots, biases) if given[index] is not None],
        [given[index] for index in _STATES[op.type]],
        call.outputs[1:],
        False,
        None,
        [(slot, *np.full((2, hidden), [[0], [scales[index]]], np.float32)) for slot, index in zip(slots, recurrent)],
    )
    round_inputs = _rounder(op, x, work)
    cell = _rounding(op, cell_of(op), call.scratch[4:])
    return in_turn([lambda: round_inputs(given[0]), unrolled(call, cell, [side], True)])


def _rounding(op: OperatorDef, cell: Cell, memory: Sequence[Array]) -> Cell:
    """The cell whose products take rounded hidden states."""

    def bind(gates: Gates) -> Loop:
        target, work = (shaped(buffer, *gates.gates.shape[1:]) for buffer in memory)
        return cell.bind(gates._replace(rounded=_rounder(op, target, work)))

    return cell._replace(bind=bind)


def _rounder(op: OperatorDef, target: Array, work: Array) -> Callable[[Array], Array]:
    """A function that writes each row of an array rounded to 8 bits, and returns the target. work: of that size."""
    asymmetric = op.get_bool("asymmetric")
    limits, least = (asymmetric_range, -128) if asymmetric else (symmetric_range, -127)

    low, high, step, inverse, zero = np.empty((5, *target.shape[:-1], 1), np.float32)
    rows = [column.reshape(-1) for column in (low, high, step, inverse, zero)]

    def round_rows(x: Array) -> Array:
        x.min(-1, out=low, keepdims=True)
        x.max(-1, out=high, keepdims=True)
        for row, ends in enumerate(zip(*rows[:2])):
            rows[2][row], rows[3][row], rows[4][row] = limits(*ends)
        rounded(x, inverse, zero, least, target, work)
        np.multiply(target, step, target)
        return target

    def round_one(x: Array) -> Array:
        """Symmetrically. Nothing needs to be limited: no number is more than 127 and a few roundings of float32."""
        step, inverse, _ = symmetric_range(x[x.argmin()], x[x.argmax()])
        np.multiply(x, inverse, target)
        np.copysign(_ALMOST_HALF, target, work)
        np.add(target, work, target)
        np.trunc(target, target)
        np.multiply(target, step, target)
        return target

    return round_one if target.ndim == 1 and not asymmetric else round_rows
