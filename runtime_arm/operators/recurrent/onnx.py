"""ONNX's recurrent layers LSTM, GRU and RNN: schema and reference kernels."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.multiply_adds import per_row
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Activation = Callable[[Array], Any]
MaybeSpec = Optional[TensorSpec]


class Function(NamedTuple):
    """An activation function and the defaults of its parameters, None for a parameter that it does not have."""

    apply: Callable[..., Any]
    alpha: Optional[float] = None
    beta: Optional[float] = None


FUNCTIONS = {
    "relu": Function(lambda x: np.maximum(x, 0)),
    "tanh": Function(np.tanh),
    "sigmoid": Function(lambda x: (1 + np.tanh(x / 2)) / 2),
    "affine": Function(lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "leakyrelu": Function(lambda x, alpha: np.where(x >= 0, x, alpha * x), 0.01),
    "thresholdedrelu": Function(lambda x, alpha: np.where(x >= alpha, x, 0), 1.0),
    "scaledtanh": Function(lambda x, alpha, beta: alpha * np.tanh(beta * x), 1.0, 1.0),
    "hardsigmoid": Function(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
    "elu": Function(lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))), 1.0),
    "softsign": Function(lambda x: x / (1 + np.abs(x))),
    "softplus": Function(lambda x: np.logaddexp(0, x)),
}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULTS = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def direction_count(op: OperatorDef) -> int:
    """The number of directions: 2 for a bidirectional layer, else 1."""
    direction = op.get_str("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ArgumentError(op, f"direction must be forward, reverse or bidirectional, got {direction!r}")
    return 2 if direction == "bidirectional" else 1


def activation_names(op: OperatorDef) -> List[str]:
    """The activation functions of all directions, in lower case."""
    defaults = DEFAULTS[op.type] * direction_count(op)
    names = [name.lower() for name in op.get_strs("activations")] or list(defaults)
    if len(names) != len(defaults) or not set(names) <= set(FUNCTIONS):
        raise ArgumentError(op, f"activations must be {len(defaults)} of {', '.join(FUNCTIONS)}, got {names}")
    return names


def _activations(op: OperatorDef) -> Iterator[Tuple[Activation, ...]]:
    """For each direction, its activation functions with their parameters. All but the cell's clip their input."""
    alphas, betas = iter(op.get_floats("activation_alpha")), iter(op.get_floats("activation_beta"))
    each = len(DEFAULTS[op.type])
    bound: List[Activation] = []
    for i, name in enumerate(activation_names(op)):
        function, of_cell = FUNCTIONS[name], i % each == 2
        parameters = [
            next(given, default)
            for given, default in ((alphas, function.alpha), (betas, function.beta))
            if default is not None
        ]
        limit = np.inf if of_cell else op.get_float("clip", np.inf)
        bound.append(partial(_clipped, function.apply, limit, parameters))
    return (tuple(bound[i : i + each]) for i in range(0, len(bound), each))


def _clipped(apply: Callable[..., Any], limit: float, parameters: Sequence[float], x: Array) -> Any:
    return apply(np.clip(x, -limit, limit), *parameters)


def _sizes(op: OperatorDef, x: TensorSpec, r: TensorSpec) -> Tuple[int, int, int]:
    """Time steps, batch and hidden size."""
    steps, batch = (x.shape[1], x.shape[0]) if op.get_bool("layout") else (x.shape[0], x.shape[1])
    return steps, batch, r.shape[-1]


def checked(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: MaybeSpec,
    lengths: MaybeSpec,
    states: Sequence[MaybeSpec],
    peepholes: MaybeSpec = None,
) -> List[TensorSpec]:
    """The specs of Y and of the states after the last step."""
    require_floats(op, x, w, r, b, peepholes, *states)
    require(op, x.ndim == w.ndim == r.ndim == 3, "X, W and R must have 3 dimensions", x, w, r)
    steps, batch, hidden = _sizes(op, x, r)
    if op.get_int("hidden_size", hidden) != hidden:
        raise ArgumentError(op, f"hidden_size is {op.get_int('hidden_size')}, but R has {hidden}")
    directions, gates = direction_count(op), GATES[op.type]
    activation_names(op)
    expected = {
        "W": (w, (directions, gates * hidden, x.shape[2])),
        "R": (r, (directions, gates * hidden, hidden)),
        "B": (b, (directions, 2 * gates * hidden)),
        "P": (peepholes, (directions, 3 * hidden)),
        "sequence_lens": (lengths, (batch,)),
    }
    state = (batch, directions, hidden) if op.get_bool("layout") else (directions, batch, hidden)
    expected.update((f"initial state {i}", (spec, state)) for i, spec in enumerate(states))
    for name, (spec, shape) in expected.items():
        require(op, spec is None or spec.shape == shape, f"{name} must be {list(shape)}", spec)
    require(op, lengths is None or lengths.dtype.kind == "i", "sequence_lens must be integers", lengths)
    whole = (batch, steps, directions, hidden) if op.get_bool("layout") else (steps, directions, batch, hidden)
    return [x.with_shape(whole)] + [x.with_shape(state)] * len(states)


@operator("LSTM", domain="onnx", inputs=(3, 8), outputs=(0, 3), multiply_adds=per_row(1, 2, dims=2))
def lstm(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: MaybeSpec = None,
    lengths: MaybeSpec = None,
    initial_h: MaybeSpec = None,
    initial_c: MaybeSpec = None,
    p: MaybeSpec = None,
) -> List[TensorSpec]:
    """Y, Y_h, Y_c: C = f C + i c, H = o h(C), where i, f, o are gates and c is the cell's input.

    i = f(X Wi + H Ri + Pi C + Bi), f and o accordingly (o sees the new C), c = g(X Wc + H Rc + Bc). X: (time, batch,
    in), W: (directions, 4 hidden, in), R: (directions, 4 hidden, hidden), gates i, o, f, c. layout=1: batch first.
    Sequences shorter than X end in zeros; those of no steps have last states of zeros. input_forget: f is 1 - i. clip
    bounds the inputs of f and g.
    """
    return checked(op, x, w, r, b, lengths, [initial_h, initial_c], p)


@operator("GRU", domain="onnx", inputs=(3, 6), outputs=(0, 2), multiply_adds=per_row(1, 2, dims=2))
def gru(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: MaybeSpec = None,
    lengths: MaybeSpec = None,
    initial_h: MaybeSpec = None,
) -> List[TensorSpec]:
    """Y, Y_h: H = (1 - z) h + z H with z = f(X Wz + H Rz + Bz), r accordingly, h = g(X Wh + (r H) Rh + Bh).

    With linear_before_reset: h = g(X Wh + r (H Rh + Rbh) + Wbh). Gates z, r, h. Otherwise as LSTM.
    """
    return checked(op, x, w, r, b, lengths, [initial_h])


@operator("RNN", domain="onnx", inputs=(3, 6), outputs=(0, 2), multiply_adds=per_row(1, 2, dims=2))
def rnn(
    op: OperatorDef,
    x: TensorSpec,
    w: TensorSpec,
    r: TensorSpec,
    b: MaybeSpec = None,
    lengths: MaybeSpec = None,
    initial_h: MaybeSpec = None,
) -> List[TensorSpec]:
    """Y, Y_h: H = f(X W + H R + B). Otherwise as LSTM."""
    return checked(op, x, w, r, b, lengths, [initial_h])


class Weights(NamedTuple):
    """One direction's weights in float64: w (in, gates hidden), r (hidden, gates hidden), biases, peepholes."""

    w: Array
    r: Array
    wb: Array
    rb: Array
    p: Array


Activations = Tuple[Activation, ...]
Step = Callable[[OperatorDef, Array, List[Array], Weights, Activations], List[Array]]


def _lstm_step(op: OperatorDef, x: Array, states: List[Array], m: Weights, activations: Activations) -> List[Array]:
    hidden, cell = states
    f, g, h = activations
    i, o, forget, c = np.split(x @ m.w + hidden @ m.r + m.wb + m.rb, 4, axis=1)
    pi, po, pf = np.split(m.p, 3)
    i = f(i + pi * cell)
    forget = 1 - i if op.get_bool("input_forget") else f(forget + pf * cell)
    cell = forget * cell + i * g(c)
    return [f(o + po * cell) * h(cell), cell]


def _gru_step(op: OperatorDef, x: Array, states: List[Array], m: Weights, activations: Activations) -> List[Array]:
    hidden, (f, g) = states[0], activations
    n = hidden.shape[1]
    given = x @ m.w + m.wb
    z, r = np.split(f((given + hidden @ m.r + m.rb)[:, : 2 * n]), 2, axis=1)
    if op.get_bool("linear_before_reset"):
        new = g(given[:, 2 * n :] + r * (hidden @ m.r + m.rb)[:, 2 * n :])
    else:
        new = g(given[:, 2 * n :] + (r * hidden) @ m.r[:, 2 * n :] + m.rb[2 * n :])
    return [(1 - z) * new + z * hidden]


def _rnn_step(op: OperatorDef, x: Array, states: List[Array], m: Weights, activations: Activations) -> List[Array]:
    return [activations[0](x @ m.w + states[0] @ m.r + m.wb + m.rb)]


STEPS: Dict[str, Step] = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}


def reversed_sequences(x: Array, lengths: Array) -> Array:
    """Each sequence (time, batch, ...) in reverse order. What follows its end stays in place."""
    time = np.arange(len(x)).reshape(-1, 1)
    order = np.where(time < lengths, lengths - 1 - time, time)
    return np.take_along_axis(x, order[:, :, None], axis=0)


def _as_they_are(weights: Weights) -> Weights:
    return weights


@lstm.reference
@gru.reference
@rnn.reference
def recurrent(
    op: OperatorDef,
    x: Array,
    w: Array,
    r: Array,
    b: Optional[Array] = None,
    lengths: Optional[Array] = None,
    *rest: Optional[Array],
    change: Callable[[Weights], Weights] = _as_they_are,
) -> List[Any]:
    """The reference kernel of the three; ``change`` may put other weights in the place of a direction's."""
    batch_first = op.get_bool("layout")
    steps = (np.swapaxes(x, 0, 1) if batch_first else x).astype(np.float64)
    ends = np.full(steps.shape[1], len(steps)) if lengths is None else np.clip(lengths.astype(np.int64), 0, len(steps))
    results = []
    for d, activations in enumerate(_activations(op)):
        weights = change(weights_of(op, d, w, r, b, rest[2] if len(rest) > 2 else None))
        backward = op.get_str("direction", "forward") == "reverse" or d == 1
        states = initial_states(op, d, rest, (steps.shape[1], r.shape[-1]))
        y, last = _unrolled(
            op, reversed_sequences(steps, ends) if backward else steps, ends, states, weights, activations
        )
        last = last if lengths is None else [np.where(ends.reshape(-1, 1) > 0, state, 0) for state in last]
        results.append([reversed_sequences(y, ends) if backward else y, *last])
    y, *last = (np.stack(parts).astype(x.dtype) for parts in zip(*results))  # direction, time, batch, hidden
    if batch_first:
        return [y.transpose(2, 1, 0, 3), *(state.swapaxes(0, 1) for state in last)]
    return [y.swapaxes(0, 1), *last]


def weights_of(op: OperatorDef, d: int, w: Array, r: Array, b: Optional[Array], p: Optional[Array]) -> Weights:
    rows, hidden = w.shape[1], r.shape[2]
    biases = np.zeros(2 * rows) if b is None else b[d].astype(np.float64)
    peepholes = np.zeros(3 * hidden) if p is None else p[d].astype(np.float64)
    return Weights(w[d].T.astype(np.float64), r[d].T.astype(np.float64), biases[:rows], biases[rows:], peepholes)


def initial_states(op: OperatorDef, d: int, given: Sequence[Optional[Array]], shape: Tuple[int, int]) -> List[Array]:
    """The states (batch, hidden) of a direction before the first step."""
    states = [given[i] if i < len(given) else None for i in range(2 if op.type == "LSTM" else 1)]
    at = (slice(None), d) if op.get_bool("layout") else (d,)
    return [np.zeros(shape) if state is None else state[at].astype(np.float64) for state in states]


def _unrolled(
    op: OperatorDef, x: Array, ends: Array, states: List[Array], weights: Weights, activations: Activations
) -> Tuple[Array, List[Array]]:
    """The hidden state after each step, 0 after the sequence's end, and the states at the sequences' ends."""
    y = np.zeros((len(x), *states[0].shape))
    for t, x_t in enumerate(x):
        goes_on = (t < ends).reshape(-1, 1)
        new = STEPS[op.type](op, x_t, states, weights, activations)
        states = [np.where(goes_on, after, before) for after, before in zip(new, states)]
        y[t] = np.where(goes_on, new[0], 0)
    return y, states
