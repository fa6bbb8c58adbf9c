"""The gradients of ONNX's LSTM, GRU and RNN with their usual activations, armnet's own operators.

The steps run again in float64, and then backwards through time. Inputs: those of the layer except peepholes, then the
gradients of its outputs; inputs that are left out are empty. Outputs: the gradients of X, W, R, and of B and the
initial states if they are given.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.recurrent.onnx import (
    STEPS,
    Weights,
    direction_count,
    gru,
    initial_states,
    lstm,
    reversed_sequences,
    rnn,
    weights_of,
)
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import TensorSpec

STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}


class Errors(NamedTuple):
    """The gradients of one step, or their sums over the steps: of x, the states before, and the weights as in
    ``Weights``, biases as one vector."""

    x: Array
    states: List[Array]
    w: Any
    r: Any
    b: Any


def _sigmoid(x: Array) -> Any:
    return (1 + np.tanh(x / 2)) / 2


def _lstm_back(op: OperatorDef, x: Array, states: List[Array], m: Weights, errors: List[Array]) -> Errors:
    (hidden, cell), (dh, dc) = states, errors
    i, o, f, g = np.split(x @ m.w + hidden @ m.r + m.wb + m.rb, 4, axis=1)
    i, o, f, g = _sigmoid(i), _sigmoid(o), _sigmoid(f), np.tanh(g)
    bent = np.tanh(f * cell + i * g)
    dc = dc + dh * o * (1 - bent**2)
    slopes = dc * g * i * (1 - i), dh * bent * o * (1 - o), dc * cell * f * (1 - f), dc * i * (1 - g**2)
    return _of_sums(x, hidden, m, np.concatenate(slopes, axis=1), [dc * f])


def _rnn_back(op: OperatorDef, x: Array, states: List[Array], m: Weights, errors: List[Array]) -> Errors:
    y = np.tanh(x @ m.w + states[0] @ m.r + m.wb + m.rb)
    return _of_sums(x, states[0], m, errors[0] * (1 - y**2), [])


def _of_sums(x: Array, hidden: Array, m: Weights, sums: Array, others: List[Array]) -> Errors:
    """The gradients from those of the gates' sums x W + h R + b."""
    biases = np.concatenate([sums.sum(axis=0)] * 2)
    return Errors(sums @ m.w.T, [sums @ m.r.T, *others], x.T @ sums, hidden.T @ sums, biases)


def _gru_back(op: OperatorDef, x: Array, states: List[Array], m: Weights, errors: List[Array]) -> Errors:
    hidden, dh, n = states[0], errors[0], states[0].shape[1]
    given, fed = x @ m.w + m.wb, hidden @ m.r + m.rb
    z, r = np.split(_sigmoid((given + fed)[:, : 2 * n]), 2, axis=1)
    linear = op.get_bool("linear_before_reset")
    reset = r * fed[:, 2 * n :] if linear else (r * hidden) @ m.r[:, 2 * n :] + m.rb[2 * n :]
    new = np.tanh(given[:, 2 * n :] + reset)
    dnew = dh * (1 - z) * (1 - new**2)
    back = dnew @ m.r[:, 2 * n :].T
    dreset = dnew * fed[:, 2 * n :] if linear else back * hidden
    gates = np.concatenate([dh * (hidden - new) * z * (1 - z), dreset * r * (1 - r)], axis=1)
    of_given, of_fed = (np.concatenate([gates, part], axis=1) for part in (dnew, dnew * r if linear else 0 * dnew))
    dr, db = hidden.T @ of_fed, np.concatenate([of_given.sum(axis=0), of_fed.sum(axis=0)])
    before = dh * z + of_fed @ m.r.T
    if not linear:
        dr[:, 2 * n :] += (r * hidden).T @ dnew
        db[5 * n :] += dnew.sum(axis=0)
        before = before + back * r
    return Errors(of_given @ m.w.T, [before], x.T @ of_given, dr, db)


BACK: Dict[str, Callable[..., Errors]] = {"LSTM": _lstm_back, "GRU": _gru_back, "RNN": _rnn_back}


def _declare(forward: Operator) -> Operator:
    count = STATES[forward.type]
    inputs = 5 + count + 1 + count

    def shape(op: OperatorDef, *specs: Optional[TensorSpec]) -> List[TensorSpec]:
        x, w, r, b, lengths, *rest = specs
        given, errors = rest[:count], rest[count:]
        require_floats(op, *(spec for spec in (x, w, r, b, *rest) if spec is not None))
        made = forward.shape(forward_form(op), x, w, r, b, lengths, *given)
        for spec, wanted in zip(errors, made):
            fits = spec is None or spec.shape == wanted.shape
            require(op, fits, f"the gradient of an output must have the shape {list(wanted.shape)}", spec)
        return [spec for spec in (x, w, r, b, *given) if spec is not None]

    shape.__doc__ = f"The gradients of {forward.type}'s inputs; see the file's beginning."
    products = per_row(1, 2, dims=2)
    schema = operator(
        f"{forward.type}Gradient", domain="armnet", inputs=inputs, outputs=(3, 6), dtypes=FLOATS, multiply_adds=products
    )(shape)
    schema.reference(lambda op, *arrays: _reference(forward_form(op), *arrays))
    return schema


def _reference(op: OperatorDef, *arrays: Optional[Array]) -> List[Any]:
    x, w, r, b, lengths, *rest = arrays
    assert x is not None
    assert w is not None
    assert r is not None
    count, first = STATES[op.type], op.get_bool("layout")
    steps = (np.swapaxes(x, 0, 1) if first else x).astype(np.float64)
    ends = np.full(steps.shape[1], len(steps)) if lengths is None else np.clip(lengths.astype(np.int64), 0, len(steps))
    found = []
    for d in range(direction_count(op)):
        states = initial_states(op, d, rest[:count], (steps.shape[1], r.shape[-1]))
        errors = _errors(op, d, rest[count:], steps.shape[:2], r.shape[-1])
        if lengths is not None:
            errors[1:] = [np.where(ends.reshape(-1, 1) > 0, error, 0) for error in errors[1:]]
        backward = op.get_str("direction", "forward") == "reverse" or d == 1
        turned = [reversed_sequences(a, ends) if backward else a for a in (steps, errors[0])]
        result = _through_time(op, turned[0], ends, states, weights_of(op, d, w, r, b, None), turned[1], errors[1:])
        found.append(result._replace(x=reversed_sequences(result.x, ends) if backward else result.x))
    dx = sum(one.x for one in found)
    results: List[Any] = [np.swapaxes(dx, 0, 1) if first else dx]
    results += [np.stack([one.w.T for one in found]), np.stack([one.r.T for one in found])]
    if b is not None:
        results.append(np.stack([one.b for one in found]))
    for i in range(count):
        if rest[i] is not None:
            results.append(np.stack([one.states[i] for one in found], axis=1 if first else 0))
    return [result.astype(x.dtype) for result in results]


def _errors(
    op: OperatorDef, d: int, given: Sequence[Optional[Array]], sizes: Tuple[int, ...], hidden: int
) -> List[Array]:
    """The gradients of one direction's Y (time, batch, hidden) and last states; 0 where there is none."""
    dy, *last = given
    first = op.get_bool("layout")
    whole = np.zeros((*sizes, hidden))
    if dy is not None:
        whole = whole + (dy[:, :, d].swapaxes(0, 1) if first else dy[:, d])
    ends = [np.zeros((sizes[1], hidden)) if e is None else (e[:, d] if first else e[d]) for e in last]
    return [whole, *(e.astype(np.float64) for e in ends)]


def _through_time(
    op: OperatorDef, x: Array, ends: Array, states: List[Array], m: Weights, dy: Array, last: List[Array]
) -> Errors:
    """One direction: the steps forwards, to keep the states before each, then backwards."""
    usual: Dict[str, Any] = {"LSTM": (_sigmoid, np.tanh, np.tanh), "GRU": (_sigmoid, np.tanh), "RNN": (np.tanh,)}
    before = []
    for t, x_t in enumerate(x):
        before.append(states)
        new = STEPS[op.type](op, x_t, states, m, usual[op.type])
        goes_on = (t < ends).reshape(-1, 1)
        states = [np.where(goes_on, after, old) for after, old in zip(new, states)]
    dx, totals, errors = np.zeros(x.shape), [0.0, 0.0, 0.0], list(last)
    for t in reversed(range(len(x))):
        goes_on = (t < ends).reshape(-1, 1)
        inside = [np.where(goes_on, e, 0) for e in (errors[0] + dy[t], *errors[1:])]
        made = BACK[op.type](op, x[t], before[t], m, inside)
        dx[t] = made.x
        errors = [np.where(goes_on, own, e) for own, e in zip(made.states, errors)]
        totals = [total + own for total, own in zip(totals, (made.w, made.r, made.b))]
    shapes = m.w.shape, m.r.shape, (2 * len(m.wb),)
    return Errors(dx, errors, *(np.broadcast_to(total, shape) for total, shape in zip(totals, shapes)))


schemas = [_declare(forward) for forward in (lstm, gru, rnn)]
