"""Fast kernels of the gradients of ONNX's LSTM, GRU and RNN, for sequences that do not end early.

A direction runs forwards again and keeps the values of its gates, then backwards. For what does not depend on the order
of steps, one product serves all of them: X W^T before the first, and after the last

    dX = D W,   dW = D^T X,   dR = D^T H,   db = the sum of D

with D, (time, batch, gates): the gradients of the gates' sums, written over the gates, and the hidden states H before
each step. If the recurrent part of a gate has another gradient than its sum (GRU's third), it is kept in addition to D.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.operators.recurrent.onnx import direction_count
from runtime_arm.operators.recurrent.onnx_gradients import STATES, schemas
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import shaped

SPARE = 5  # arrays (batch, hidden) for a step


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if op.get_bool("layout"):
        return "only for layout=0"
    if len(inputs) > 4 and inputs[4] is not None:
        return "not with lengths of sequences"
    if any(spec is not None and not spec.size for spec in inputs):
        return "there is nothing to compute"
    return single_or_double(op, inputs, outputs)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Gates of all steps; three arrays of states of all steps; gates of a step; spare ones; R^T; dX of a direction."""
    x, _, r = inputs[:3]
    assert x is not None
    assert r is not None
    (steps, batch, _), (_, rows, hidden) = x.shape, r.shape
    sizes = (steps * batch * rows, 3 * steps * batch * hidden, 2 * batch * rows, SPARE * batch * hidden, rows * hidden)
    return [TensorSpec((size,), x.dtype) for size in (*sizes, x.size if direction_count(op) > 1 else 0)]


class Side(NamedTuple):
    """One direction: its recurrent weights, its memory, and the order of its steps.

    transposed: R^T, copied, since BLAS takes four times as long to multiply a few rows with the transpose of R. gates:
    (time, batch, gates); hidden: the states before each step; kept, other: what a kind of layer keeps in addition, each
    (time, batch, hidden). row, back: (batch, gates). spare: (SPARE, batch, hidden).
    """

    r: Array
    transposed: Array
    recurrent_bias: Optional[Array]
    gates: Array
    hidden: Array
    kept: Array
    other: Array
    row: Array
    back: Array
    spare: Array
    order: Sequence[int]

    def slots(self, gates: Array) -> List[Array]:
        """The gates of a step one by one, as views."""
        n = self.hidden.shape[2]
        return [gates[:, at : at + n] for at in range(0, gates.shape[1], n)]


States = List[Array]
Forwards = Callable[[Side, States], Any]
Backwards = Callable[[Side, Optional[Array], States], Any]


def _bend(gates: Array) -> None:
    """gates = sigmoid(gates) = (1 + tanh(gates / 2)) / 2."""
    np.multiply(gates, 0.5, out=gates)
    np.tanh(gates, out=gates)
    np.add(gates, 1, out=gates)
    np.multiply(gates, 0.5, out=gates)


def _slope(y: Array, out: Array) -> None:
    """out = 1 - y^2, the slope of tanh."""
    np.multiply(y, y, out=out)
    np.subtract(1, out, out=out)


def _fed(side: Side, t: int, hidden: Array) -> Array:
    """The recurrent part of the gates' sums of a step; keeps the state before it."""
    np.copyto(side.hidden[t], hidden)
    np.matmul(hidden, side.transposed, out=side.row)
    if side.recurrent_bias is not None:
        np.add(side.row, side.recurrent_bias, out=side.row)
    return side.row


def _error(side: Side, t: int, dy: Optional[Array], dh: Array) -> None:
    if dy is not None:
        np.add(dh, dy[t], out=dh)


def _lstm_forwards(side: Side, states: States) -> None:
    """Keeps the cells before each step, and tanh of those after it."""
    (hidden, cell), n = states, side.hidden.shape[2]
    for t in side.order:
        gates = side.gates[t]
        np.add(gates, _fed(side, t, hidden), out=gates)
        _bend(gates[:, : 3 * n])
        np.tanh(gates[:, 3 * n :], out=gates[:, 3 * n :])
        i, o, f, g = side.slots(gates)
        np.copyto(side.kept[t], cell)
        np.multiply(f, cell, out=cell)
        np.multiply(i, g, out=hidden)
        np.add(cell, hidden, out=cell)
        np.tanh(cell, out=side.other[t])
        np.multiply(o, side.other[t], out=hidden)


def _lstm_backwards(side: Side, dy: Optional[Array], errors: States) -> None:
    (dh, dc), (a, b, *_) = errors, side.spare
    di, do, df, dg = side.slots(side.back)
    for t in reversed(side.order):
        (i, o, f, g), bent = side.slots(side.gates[t]), side.other[t]
        _error(side, t, dy, dh)
        _slope(bent, a)
        np.multiply(a, o, out=a)
        np.multiply(a, dh, out=a)
        np.add(dc, a, out=dc)
        np.multiply(dh, bent, out=do)
        np.multiply(dc, side.kept[t], out=df)
        np.multiply(dc, g, out=di)
        for gate, slope in ((o, do), (f, df), (i, di)):
            np.subtract(1, gate, out=b)
            np.multiply(b, gate, out=b)
            np.multiply(slope, b, out=slope)
        _slope(g, b)
        np.multiply(b, i, out=b)
        np.multiply(b, dc, out=dg)
        np.multiply(dc, f, out=dc)
        np.copyto(side.gates[t], side.back)
        np.matmul(side.back, side.r, out=dh)


def _rnn_forwards(side: Side, states: States) -> None:
    for t in side.order:
        gates = side.gates[t]
        np.add(gates, _fed(side, t, states[0]), out=gates)
        np.tanh(gates, out=gates)
        np.copyto(states[0], gates)


def _rnn_backwards(side: Side, dy: Optional[Array], errors: States) -> None:
    dh, a = errors[0], side.spare[0]
    for t in reversed(side.order):
        gates = side.gates[t]
        _error(side, t, dy, dh)
        _slope(gates, a)
        np.multiply(dh, a, out=gates)
        np.matmul(gates, side.r, out=dh)


def _gru_forwards(side: Side, states: States, linear: bool) -> None:
    """Keeps the recurrent part of the third gate or, if that is reset before the product, the product's factor."""
    hidden, n = states[0], side.hidden.shape[2]
    last, a = side.transposed[:, 2 * n :], side.spare[0]
    for t in side.order:
        gates, fed = side.gates[t], _fed(side, t, hidden)
        np.add(gates[:, : 2 * n], fed[:, : 2 * n], out=gates[:, : 2 * n])
        _bend(gates[:, : 2 * n])
        z, r, new = side.slots(gates)
        if linear:
            np.copyto(side.kept[t], fed[:, 2 * n :])
            np.multiply(r, side.kept[t], out=a)
        else:
            np.multiply(r, hidden, out=side.kept[t])
            np.matmul(side.kept[t], last, out=a)
            if side.recurrent_bias is not None:
                np.add(a, side.recurrent_bias[2 * n :], out=a)
        np.add(new, a, out=new)
        np.tanh(new, out=new)
        np.subtract(hidden, new, out=hidden)
        np.multiply(hidden, z, out=hidden)
        np.add(hidden, new, out=hidden)


def _gru_backwards(side: Side, dy: Optional[Array], errors: States, linear: bool) -> None:
    """``other``: the gradients of the recurrent part of the third gate; 0 if that is reset before the product."""
    dh, n, (a, b, c, d, _) = errors[0], side.hidden.shape[2], side.spare
    dz, dr, dnew = side.slots(side.back)
    for t in reversed(side.order):
        (z, r, new), hidden = side.slots(side.gates[t]), side.hidden[t]
        _error(side, t, dy, dh)
        np.subtract(1, z, out=a)
        _slope(new, b)
        np.multiply(b, a, out=b)
        np.multiply(b, dh, out=dnew)
        np.multiply(a, z, out=a)
        np.subtract(hidden, new, out=b)
        np.multiply(a, b, out=a)
        np.multiply(a, dh, out=dz)
        np.subtract(1, r, out=a)
        np.multiply(a, r, out=a)
        np.multiply(dh, z, out=dh)
        if linear:
            np.multiply(dnew, side.kept[t], out=b)
            np.multiply(a, b, out=dr)
            np.multiply(dnew, r, out=side.other[t])
            np.copyto(d, side.other[t])
        else:
            np.copyto(d, dnew)
            np.matmul(d, side.r[2 * n :], out=b)
            np.multiply(b, hidden, out=c)
            np.multiply(a, c, out=dr)
            np.multiply(b, r, out=b)
            np.add(dh, b, out=dh)
        np.copyto(side.gates[t], side.back)
        np.matmul(side.back[:, : 2 * n], side.r[: 2 * n], out=c)
        np.add(dh, c, out=dh)
        if linear:
            np.matmul(d, side.r[2 * n :], out=c)
            np.add(dh, c, out=dh)


def _passes(op: OperatorDef) -> Tuple[Forwards, Backwards]:
    if op.type == "LSTMGradient":
        return _lstm_forwards, _lstm_backwards
    if op.type == "RNNGradient":
        return _rnn_forwards, _rnn_backwards
    linear = op.get_bool("linear_before_reset")
    return (
        lambda side, states: _gru_forwards(side, states, linear),
        lambda side, dy, errors: _gru_backwards(side, dy, errors, linear),
    )


def _sums(op: OperatorDef, side: Side, x: Array, dw: Array, dr: Array, db: Optional[Array]) -> None:
    """The gradients of the weights, sums over all steps. x: (time * batch, inputs)."""
    rows, n = side.r.shape
    d, hidden = side.gates.reshape(-1, rows), side.hidden.reshape(-1, n)
    kept, other = (array.reshape(-1, n) for array in (side.kept, side.other))
    np.matmul(d.T, x, out=dw)
    linear = op.type == "GRUGradient" and op.get_bool("linear_before_reset")
    if op.type == "GRUGradient":
        np.matmul(d[:, : 2 * n].T, hidden, out=dr[: 2 * n])
        third = (other, hidden) if linear else (d[:, 2 * n :], kept)
        np.matmul(third[0].T, third[1], out=dr[2 * n :])
    else:
        np.matmul(d.T, hidden, out=dr)
    if db is not None:
        np.add.reduce(d, axis=0, out=db[:rows])
        np.copyto(db[rows:], db[:rows])
        if linear:
            np.add.reduce(other, axis=0, out=db[rows + 2 * n :])


def _start(states: States, given: Sequence[Optional[Array]], at: int) -> None:
    """The states of a direction from (directions, batch, hidden), or 0."""
    for state, source in zip(states, given):
        np.copyto(state, 0 if source is None else source[at])


def _kernel(call: Call) -> Run:
    op, kind = call.op, call.op.type[: -len("Gradient")]
    count = STATES[kind]
    given = [*call.inputs, *[None] * (6 + 2 * count - len(call.inputs))]
    x, w, r, b, _, *rest = given
    first, (dy, *last) = rest[:count], rest[count:]
    dx, dw, dr, *more = call.outputs
    db = more.pop(0) if b is not None else None
    started = [None if state is None else more.pop(0) for state in first]
    (steps, batch, inputs), (_, rows, n) = x.shape, r.shape
    gates, states, row, spare, transposed, side_dx = call.scratch
    of_steps, of_step = shaped(states, 3, steps, batch, n), shaped(row, 2, batch, rows)
    all_gates, spares = shaped(gates, steps, batch, rows), shaped(spare, SPARE, batch, n)
    forwards, backwards = _passes(op)
    flat, flat_gates = x.reshape(-1, inputs), all_gates.reshape(-1, rows)

    def run_side(at: int) -> None:
        backward = at == 1 or op.get_str("direction", "forward") == "reverse"
        order = range(steps)[::-1] if backward else range(steps)
        biases = (None, None) if b is None else (b[at, :rows], b[at, rows:])
        hidden, kept, other = of_steps
        rt = shaped(transposed, n, rows)
        np.copyto(rt, r[at].T)
        side = Side(r[at], rt, biases[1], all_gates, hidden, kept, other, of_step[0], of_step[1], spares, order)
        np.matmul(flat, w[at].T, out=flat_gates)
        if biases[0] is not None:
            np.add(flat_gates, biases[0], out=flat_gates)
        moving = list(spares[-count:])
        _start(moving, first, at)
        forwards(side, moving)
        _start(moving, last, at)
        backwards(side, None if dy is None else dy[:, at], moving)
        for output, error in zip(started, moving):
            if output is not None:
                np.copyto(output[at], error)
        _sums(op, side, flat, dw[at], dr[at], None if db is None else db[at])
        total = dx.reshape(-1, inputs)
        if at == 0:
            np.matmul(flat_gates, w[at], out=total)
        else:
            np.matmul(flat_gates, w[at], out=shaped(side_dx, *total.shape))
            np.add(total, shaped(side_dx, *total.shape), out=total)

    def run() -> None:
        for at in range(direction_count(op)):
            run_side(at)

    return run


for _schema in schemas:
    _schema.kernel("NUMPY", supports=_supports, scratch=_scratch)(_kernel)
