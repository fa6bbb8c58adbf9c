"""Normalisation by norms: local response normalisation, division by a vector's norm, the norm itself (Caffe2, ONNX)."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("LRN", outputs=(1, 2))
def lrn(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X / scale^beta, scale = bias + alpha / size * sum of X squared over ``size`` channels; output 1 is scale.

    The window reaches from (size - 1) // 2 channels before to size // 2 channels after. alpha and beta are 0, bias is
    1. X: (N, C, ...) or, order NHWC, (N, ..., C). Source: Caffe2; Krizhevsky et al., ImageNet Classification (2012),
    3.3.
    """
    if op.get_int("size") < 1:
        raise ArgumentError(op, f"size must be 1 or more, got {op.get_int('size')}")
    for name in ("alpha", "beta", "bias"):
        op.get_float(name, 0.0)
    require_floats(op, x)
    require(op, x.ndim >= 3, "X must have 3 dimensions or more", x)
    channels_last(op)
    return [x, x]


def channels_in_front(op: OperatorDef, x: Array) -> Array:
    """A view of X with channels as dimension 0."""
    return np.moveaxis(x, -1 if channels_last(op) else 1, 0)


def window_of(size: int, channels: int) -> List[Tuple[slice, slice]]:
    """For each offset of the window: the output channels for which it is inside, and the channels that they read."""
    reach = range(max(-((size - 1) // 2), 1 - channels), min(size // 2, channels - 1) + 1)
    return [(slice(max(-r, 0), channels - max(r, 0)), slice(max(r, 0), channels - max(-r, 0))) for r in reach]


@lrn.reference
def lrn_reference(op: OperatorDef, x: Array) -> List[Any]:
    size = op.get_int("size")
    squares = np.square(channels_in_front(op, x.astype(np.float64)))
    sums = np.zeros_like(squares)
    for out, seen in window_of(size, len(squares)):
        sums[out] += squares[seen]
    scale = op.get_float("bias", 1.0) + op.get_float("alpha", 0.0) / size * sums
    scale = np.moveaxis(scale, 0, -1 if channels_last(op) else 1)
    return [(x * scale ** -op.get_float("beta", 0.0)).astype(x.dtype), scale.astype(x.dtype)]


def _lrn_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return outputs[:1] if len(outputs) == 1 else ()


def power_into(base: Array, exponent: float, out: Array) -> Run:
    """A run that writes base ** exponent to ``out``.

    The usual exponent, 0.75, takes two square roots, which is several times as fast as a power.
    """
    if exponent != 0.75:
        typed = base.dtype.type(exponent)
        return lambda: np.power(base, typed, out=out)

    def run() -> None:
        np.sqrt(base, out=out)
        np.multiply(base, out, out=out)
        np.sqrt(out, out=out)

    return run


@lrn.kernel("NUMPY", supports=single_or_double, scratch=_lrn_scratch)
def lrn_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    size = call.op.get_int("size")
    whole = call.outputs[1] if len(call.outputs) > 1 else call.scratch[0]
    scale, squares = channels_in_front(call.op, whole), channels_in_front(call.op, y)
    taps = [(scale[out], squares[seen]) for out, seen in window_of(size, len(squares))]
    factor = x.dtype.type(call.op.get_float("alpha", 0.0) / size)
    bias = call.op.get_float("bias", 1.0)
    power = power_into(whole, call.op.get_float("beta", 0.0), y)

    def run() -> None:
        np.multiply(x, x, out=y)
        np.multiply(y, factor, out=y)
        whole[...] = bias
        for target, source in taps:
            np.add(target, source, out=target)
        power()
        np.divide(x, y, out=y)

    return run


@operator("Normalize")
def normalize(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X / max(Euclidean norm, 1e-12) along ``axis`` (-1). Source: Caffe2."""
    require_floats(op, x)
    axis_of(op, op.get_int("axis", -1), _at_least_one(op, x))
    return [x]


def _at_least_one(op: OperatorDef, x: TensorSpec) -> int:
    require(op, x.ndim >= 1, "X must have a dimension", x)
    return x.ndim


@normalize.reference
def normalize_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [(x / np.maximum(_norm(x, op.get_int("axis", -1), 2), 1e-12)).astype(x.dtype)]


def _norm(x: Array, axis: int, p: int) -> Any:
    exact = np.abs(x.astype(np.float64))
    sums = (exact**p).sum(axis=axis, keepdims=True)
    return np.sqrt(sums) if p == 2 else sums


def _divided_or_zero(x: Array, norm: Array) -> Array:
    return np.where(norm == 0, 0, x / np.where(norm == 0, 1, norm)).astype(x.dtype)


@operator("NormalizeL1")
def normalize_l1(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X / sum of |X| along ``axis`` (-1); 0 where the sum is 0. Source: Caffe2."""
    require_floats(op, x)
    axis_of(op, op.get_int("axis", -1), _at_least_one(op, x))
    return [x]


@normalize_l1.reference
def normalize_l1_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_divided_or_zero(x, _norm(x, op.get_int("axis", -1), 1))]


def _order(op: OperatorDef) -> int:
    p = op.get_int("p", 2)
    if p not in (1, 2):
        raise ArgumentError(op, f"p must be 1 or 2, got {p}")
    return p


@operator("LpNormalization", domain="onnx")
def lp_normalization(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X / p-norm along ``axis`` (-1); 0 where the norm is 0. p is 1 or 2 (default)."""
    require_floats(op, x)
    axis_of(op, op.get_int("axis", -1), _at_least_one(op, x))
    _order(op)
    return [x]


@lp_normalization.reference
def lp_normalization_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [_divided_or_zero(x, _norm(x, op.get_int("axis", -1), _order(op)))]


@operator("LpNorm")
def lp_norm(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y, (1,): the sum of |X|^p, with ``average`` the mean; p is 1 or 2 (default). As in Caffe2, no root is taken."""
    require_floats(op, x)
    _order(op)
    require(op, x.size > 0 or not op.get_bool("average"), "X must not be empty: there is no average of no elements", x)
    return [x.with_shape((1,))]


@lp_norm.reference
def lp_norm_reference(op: OperatorDef, x: Array) -> List[Any]:
    total = (np.abs(x.astype(np.float64)) ** _order(op)).sum().reshape(1)
    return [(total / x.size if op.get_bool("average") else total).astype(x.dtype)]
