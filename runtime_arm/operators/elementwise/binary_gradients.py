"""The gradients of Caffe2's Add, Sub, Mul and Div, which broadcast, and of its Mean, Max, Min and PRelu.

Source: caffe2/operators/elementwise_ops.h, mean_op.h, minmax_ops.h, prelu_op.cc.
"""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast, second_shape
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.unbroadcast import broadcast_axes, sum_into, sum_to
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Terms = Callable[..., Any]  # (dc, a, b[, c]) -> the terms of dA or dB, of C's shape
Into = Callable[..., None]  # (dc, a, b[, c], out)


def _in_order(type: str, inputs: Sequence[Any]) -> Sequence[Any]:
    """dC, A, B and perhaps C. Division may have B, C, dC instead, for of A only the shape counts, which C has."""
    if type != "DivGradient" or len(inputs) == 4:
        return inputs
    b, c, dc = inputs
    return dc, c, b, c


def _declare(type: str, to_a: Terms, to_b: Terms, a_into: Into, b_into: Into, doc: str, inputs: Any = 3) -> None:
    """Declares the gradient of C = f(A, B): inputs dC, A, B and perhaps C; outputs dA and dB.

    to_a, to_b: what each element of dC contributes, in float64. a_into, b_into: the same with ``out``.
    """

    def shape(op: OperatorDef, *given: TensorSpec) -> List[TensorSpec]:
        dc, a, b, *c = _in_order(type, given)
        same_floats(op, *(spec.with_shape(()) for spec in (dc, a, b, *c)))
        full = broadcast(op, (a, b), (a.shape, second_shape(op, a, b)))
        require(op, dc.shape == full, f"dC must have the shape {list(full)} of C", dc, a, b)
        require(op, all(spec.shape == full for spec in c), f"C must have the shape {list(full)}", *c)
        require(op, op.output[0] != op.input[0] or a.shape == full, "dA must not overwrite dC, which is larger", dc, a)
        return [a, b]

    shape.__doc__ = doc
    schema = operator(type, inputs=inputs, outputs=2, dtypes=FLOATS, inplace={0: 0})(shape)

    @schema.reference
    def reference(op: OperatorDef, *given: Array) -> List[Any]:
        dc, a, b, *c = _in_order(type, given)
        fitted = b.reshape(second_shape(op, TensorSpec.known(a), TensorSpec.known(b)))
        wide = [x.astype(np.float64) for x in (dc, a, fitted, *c)]
        da, db = sum_to(to_a(*wide), a.shape), sum_to(to_b(*wide), fitted.shape)
        return [da.astype(a.dtype), db.reshape(b.shape).astype(b.dtype)]

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        dc, a, b = _in_order(type, inputs)[:3]
        broadcast = [broadcast_axes(dc.shape, a.shape), broadcast_axes(dc.shape, second_shape(op, a, b))]
        return [TensorSpec(dc.shape, dc.dtype)] if any(broadcast) else []

    @schema.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=scratch)
    def kernel(call: Call) -> Run:
        dc, a, b, *c = _in_order(type, call.inputs)
        fit = second_shape(call.op, TensorSpec(a.shape, a.dtype), TensorSpec(b.shape, b.dtype))
        operands = [dc, a, b.reshape(fit), *c]
        parts = ((b_into, call.outputs[1].reshape(fit) if len(call.outputs) > 1 else None), (a_into, call.outputs[0]))
        return _in_turn([_part(operands, into, out, call) for into, out in parts if out is not None])


def _part(operands: Sequence[Array], into: Into, out: Array, call: Call) -> Run:
    """A run that computes one gradient; dA comes last, since it may overwrite dC."""
    full = operands[0]
    if not broadcast_axes(full.shape, out.shape):
        return lambda: into(*operands, out.reshape(full.shape))
    terms = call.scratch[0]
    total = sum_into(terms, out)

    def run() -> None:
        into(*operands, terms)
        total()

    return run


def _in_turn(runs: Sequence[Run]) -> Run:
    def run() -> None:
        for part in runs:
            part()

    return run


def _first(dc: Array, a: Array, b: Array, out: Array) -> None:
    np.copyto(out, dc)


def _negated(dc: Array, a: Array, b: Array, out: Array) -> None:
    np.negative(dc, out=out)


def _times_a(dc: Array, a: Array, b: Array, out: Array) -> None:
    np.multiply(dc, a, out=out)


def _times_b(dc: Array, a: Array, b: Array, out: Array) -> None:
    np.multiply(dc, b, out=out)


def _over_b(dc: Array, a: Array, b: Array, c: Array, out: Array) -> None:
    np.divide(dc, b, out=out)


def _quotient(dc: Array, a: Array, b: Array, c: Array, out: Array) -> None:
    np.multiply(dc, c, out=out)
    np.divide(out, b, out=out)
    np.negative(out, out=out)


_BROADCAST = "An operand that was broadcast gets the sum."
_declare("AddGradient", lambda dc, a, b: dc, lambda dc, a, b: dc, _first, _first, f"dA = dB = dC. {_BROADCAST}")
_declare("SubGradient", lambda dc, a, b: dc, lambda dc, a, b: -dc, _first, _negated, f"dA = dC, dB = -dC. {_BROADCAST}")
_declare(
    "MulGradient",
    lambda dc, a, b: dc * b,
    lambda dc, a, b: dc * a,
    _times_b,
    _times_a,
    f"dA = dC B, dB = dC A. {_BROADCAST}",
)
_declare(
    "DivGradient",
    lambda dc, a, b, c: dc / b,
    lambda dc, a, b, c: -dc * c / b,
    _over_b,
    _quotient,
    f"Inputs dC, A, B, C, or B, C, dC. dA = dC / B, dB = -dC C / B. {_BROADCAST} Only A's shape counts.",
    inputs=(3, 4),
)


@operator("MeanGradient", outputs=(1, None), dtypes=FLOATS, inplace={0: 0})
def mean_gradient(op: OperatorDef, dy: TensorSpec) -> List[TensorSpec]:
    """Every output is dY divided by the number of outputs."""
    return [dy] * len(op.output)


@mean_gradient.reference
def mean_gradient_reference(op: OperatorDef, dy: Array) -> List[Any]:
    share = (dy.astype(np.float64) / len(op.output)).astype(dy.dtype)
    return [share.copy() for _ in op.output]


@mean_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64))
def mean_gradient_numpy(call: Call) -> Run:
    dy, first, factor = call.inputs[0], call.outputs[0], call.outputs[0].dtype.type(1 / len(call.outputs))

    def run() -> None:
        np.multiply(dy, factor, out=first)
        for other in call.outputs[1:]:
            np.copyto(other, first)

    return run


def _declare_extreme(type: str, doc: str) -> None:
    def shape(op: OperatorDef, y: TensorSpec, dy: TensorSpec, *xs: TensorSpec) -> List[TensorSpec]:
        same_floats(op, y, dy, *xs)
        require(op, len(xs) == len(op.output), "there must be one output for each operand", *xs)
        return list(xs)

    shape.__doc__ = doc
    schema = operator(type, inputs=(3, None), outputs=(1, None), dtypes=FLOATS)(shape)

    @schema.reference
    def reference(op: OperatorDef, y: Array, dy: Array, *xs: Array) -> List[Any]:
        return [np.where(x == y, dy, dy.dtype.type(0)) for x in xs]

    @schema.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=_mask)
    def kernel(call: Call) -> Run:
        y, dy, *xs = call.inputs

        def run() -> None:
            for x, dx in zip(xs, call.outputs):
                np.equal(x, y, out=call.scratch[0])
                np.multiply(dy, call.scratch[0], out=dx)

        return run


def _mask(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [TensorSpec(outputs[0].shape, np.bool_)]


_declare_extreme("MaxGradient", "Inputs Y, dY, X_0, X_1, ... dX_i = dY where X_i = Y, else 0: ties all get dY.")
_declare_extreme("MinGradient", "Inputs Y, dY, X_0, X_1, ... dX_i = dY where X_i = Y, else 0: ties all get dY.")


@operator("PReluGradient", inputs=4, outputs=2, dtypes=FLOATS)
def prelu_gradient(
    op: OperatorDef, y: TensorSpec, dy: TensorSpec, x: TensorSpec, slope: TensorSpec
) -> List[TensorSpec]:
    """Inputs Y, dY, X, slope. dX = dY where X > 0, else slope dY; dslope = the sum of dY X where X <= 0."""
    require(op, op.input[0] != op.input[2], "PRelu must not have worked in place: its gradient needs X")
    same_floats(op, y, dy, x)
    channels = x.shape[_channel_axis(op)] if x.ndim > 1 else 1
    require(op, slope.size in (1, channels), "there must be one slope, or one per channel", x, slope)
    return [x, slope]


def _channel_axis(op: OperatorDef) -> int:
    return -1 if op.get_str("order", "NCHW") == "NHWC" else 1


def _aligned(op: OperatorDef, slope: Array, ndim: int) -> Array:
    """The slope, reshaped so that it broadcasts to X."""
    shape = [1] * ndim
    shape[_channel_axis(op)] = slope.size
    return slope.reshape(shape)


@prelu_gradient.reference
def prelu_gradient_reference(op: OperatorDef, y: Array, dy: Array, x: Array, slope: Array) -> List[Any]:
    wide, steep = dy.astype(np.float64), _aligned(op, slope.astype(np.float64), x.ndim)
    terms = np.where(x > 0, 0, wide * x)
    dx = np.where(x > 0, wide, steep * wide)
    return [dx.astype(x.dtype), sum_to(terms, steep.shape).reshape(slope.shape).astype(slope.dtype)]


def _prelu_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [outputs[0], TensorSpec(outputs[0].shape, np.bool_)]


@prelu_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64), scratch=_prelu_scratch)
def prelu_gradient_numpy(call: Call) -> Run:
    _, dy, x, slope = call.inputs
    dx, terms, steep = call.outputs[0], call.scratch[0], _aligned(call.op, slope, x.ndim)
    negative = call.scratch[1]
    total = _nothing if len(call.outputs) < 2 else sum_into(terms, _aligned(call.op, call.outputs[1], x.ndim))

    def run() -> None:
        np.less_equal(x, 0, out=negative)
        np.multiply(dy, negative, out=terms)
        np.subtract(dy, terms, out=dx)
        np.multiply(terms, x, out=terms)
        total()
        np.multiply(dy, negative, out=terms)
        np.multiply(terms, steep, out=terms)
        np.add(dx, terms, out=dx)

    return run


def _nothing() -> None:
    return None


@operator("WeightedSumGradient", inputs=(3, None), outputs=(1, None), dtypes=FLOATS)
def weighted_sum_gradient(op: OperatorDef, dy: TensorSpec, *pairs: TensorSpec) -> List[TensorSpec]:
    """dX_i = w_i dY, and with ``grad_on_w`` dw_i = the sum of dY X_i. Inputs: dY, X_0, w_0, X_1, w_1, ..."""
    require(op, len(pairs) % 2 == 0, "each blob needs a weight", *pairs)
    same_floats(op, dy, *pairs[::2])
    require(op, all(weight.size == 1 for weight in pairs[1::2]), "weights must be one number each", *pairs)
    return [*pairs[::2], *(pairs[1::2] if op.get_bool("grad_on_w") else ())]


@weighted_sum_gradient.reference
def weighted_sum_gradient_reference(op: OperatorDef, dy: Array, *pairs: Array) -> List[Any]:
    wide, weights = dy.astype(np.float64), pairs[1::2]
    results = [(wide * weight.reshape(())).astype(dy.dtype) for weight in weights]
    if op.get_bool("grad_on_w"):
        results += [(wide * x).sum().reshape(w.shape).astype(w.dtype) for x, w in zip(pairs[::2], weights)]
    return results
