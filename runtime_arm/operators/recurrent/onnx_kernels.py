"""Fast kernels of ONNX's LSTM, GRU and RNN with the usual activations; two directions are two workers' parts."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.operators.recurrent.cells import Cell, gru_reset_first
from runtime_arm.operators.recurrent.cells import gru as gru_cell
from runtime_arm.operators.recurrent.cells import lstm as lstm_cell
from runtime_arm.operators.recurrent.cells import rnn as rnn_cell
from runtime_arm.operators.recurrent.onnx import DEFAULTS, GATES, activation_names, direction_count, gru, lstm, rnn
from runtime_arm.operators.recurrent.unrolled import Part, Side, scratch_of, unrolled
from runtime_arm.registry.kernel import Call, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec

_RELU = "relu"
CALLS = 90_000  # multiply-adds of a large product that take as long as NumPy's calls of a step


def usual(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    names, directions = tuple(activation_names(op)), direction_count(op)
    if names != DEFAULTS[op.type] * directions and not (op.type == "RNN" and names == (_RELU,) * directions):
        return "only for the default activations"
    if op.has("clip") or op.get_bool("input_forget"):
        return "not with clip or input_forget"
    if len(inputs) > 7 and inputs[7] is not None:
        return "not with peepholes"
    if not outputs or any(output.size == 0 for output in outputs):
        return "there is nothing to compute"
    return single_or_double(op, inputs, outputs)


def may_end_early(op: OperatorDef, inputs: Specs) -> bool:
    """Whether sequences may end before the last step."""
    x, lengths = inputs[0], inputs[4] if len(inputs) > 4 else None
    if lengths is None:
        return False
    assert x is not None
    return lengths.value is None or bool((lengths.value < x.shape[op.get_bool("layout")]).any())


def _cell(op: OperatorDef, biased: bool) -> Cell:
    if op.type == "LSTM":
        return lstm_cell()
    if op.type == "RNN":
        return rnn_cell(None if activation_names(op)[0] == _RELU else np.tanh)
    return gru_cell(biased) if op.get_bool("linear_before_reset") else gru_reset_first()


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    x, r = inputs[0], inputs[2]
    assert x is not None
    assert r is not None
    batch, steps = x.shape[:2] if op.get_bool("layout") else x.shape[1::-1]
    return scratch_of(_cell(op, _bias_of(inputs) is not None), steps, batch, r.shape[2], x.dtype)


def _bias_of(inputs: Specs) -> Optional[TensorSpec]:
    return inputs[3] if len(inputs) > 3 else None


def work_of(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Work:
    """Two directions can be shared by workers: then the calls of each step count, and products with one vector, which
    wait for the weights."""
    x, w, r = inputs[:3]
    assert x is not None
    assert w is not None
    assert r is not None
    batch, steps = x.shape[:2] if op.get_bool("layout") else x.shape[1::-1]
    products = steps * batch * (w.size + r.size)
    return Work(products, steps * (w.shape[0] - 1) * (2 * CALLS + r.size * (batch == 1)))


Parts = Tuple[List[Part], List[Part], List[Part]]  # inputs, recurrent weights and biases of a direction


def lstm_parts(rows: Array) -> List[Part]:
    """What belongs to the gates i, o, f, c, each with its first slot of o, i, f, c."""
    n = len(rows) // 4
    return [(1, rows[:n]), (0, rows[n : 2 * n]), (2, rows[2 * n :])]


def _parts(op: OperatorDef, w: Array, r: Array, b: Optional[Array]) -> Parts:
    """A GRU that resets last has the slots b, z, r and h."""
    n, rows = r.shape[1], GATES[op.type] * r.shape[1]
    given, fed = (None, None) if b is None else (b[:rows], b[rows:])
    if op.type == "LSTM":
        inputs, recurrent, *biases = (lstm_parts(part) for part in (w, r, given, fed) if part is not None)
        return inputs, recurrent, [bias for both in biases for bias in both]
    if op.type == "GRU" and op.get_bool("linear_before_reset"):
        recurrent = [(1, r[: 2 * n]), (0, r[2 * n :])]
        if given is None or fed is None:
            return [(0, w)], recurrent, []
        return [(1, w)], recurrent, [(1, given), (1, fed[: 2 * n]), (0, fed[2 * n :])]
    return [(0, w)], [(0, r)], [] if given is None or fed is None else [(0, given), (0, fed)]


def sides_of(call: Call, x: Array, parts: Sequence[Parts]) -> List[Side]:
    """The directions, which have these parts, over the inputs ``x``, which lie as X does."""
    op, given = call.op, [*call.inputs, *[None] * (7 - len(call.inputs))]
    y, states, last = call.outputs[0], given[5:7], [*call.outputs[1:], None, None][:2]
    if op.get_bool("layout"):
        x, y = x.swapaxes(0, 1), y.transpose(1, 2, 0, 3)
        states, last = ([None if s is None else s.swapaxes(0, 1) for s in both] for both in (states, last))
    lengths = given[4] if may_end_early(op, call.in_specs) else None
    sides = []
    for d, own in enumerate(parts):
        first, ends = ([None if s is None else s[d] for s in both] for both in (states, last))
        backward = d == 1 or op.get_str("direction", "forward") == "reverse"
        sides.append(Side(x, y[:, d], *own, first, ends, backward, lengths))
    return sides


@lstm.kernel("NUMPY", supports=usual, scratch=_scratch, work=work_of, splits_work=True)
@gru.kernel("NUMPY", supports=usual, scratch=_scratch, work=work_of, splits_work=True)
@rnn.kernel("NUMPY", supports=usual, scratch=_scratch, work=work_of, splits_work=True)
def recurrent_numpy(call: Call) -> Run:
    op, (x, w, r, b) = call.op, [*call.inputs, None][:4]
    bias = _bias_of(call.in_specs)
    known = [call.in_specs[2], bias]
    constant = all(spec is None or spec.value is not None for spec in known)
    parts = [_parts(op, w[d], r[d], None if b is None else b[d]) for d in range(len(w))]
    return unrolled(call, _cell(op, bias is not None), sides_of(call, x, parts), constant)
