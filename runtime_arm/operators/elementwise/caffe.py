"""Caffe's elementwise functions of one blob that have parameters which Caffe2's lack. Source: BVLC Caffe."""

from __future__ import annotations

import math
from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec

FLOATS = ("float32", "float64")


@operator("Power", domain="caffe", dtypes=FLOATS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def power(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = (shift + scale * X) ** power; power and scale are 1, shift 0. If power or scale is 0, X is not read."""
    return [x]


def _constant_power(op: OperatorDef) -> bool:
    return op.get_float("power", 1.0) * op.get_float("scale", 1.0) == 0


@power.reference
def power_reference(op: OperatorDef, x: Array) -> List[Any]:
    scale, shift = op.get_float("scale", 1.0), op.get_float("shift", 0.0)
    base = np.full(x.shape, shift) if _constant_power(op) else shift + scale * x.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return [np.power(base, op.get_float("power", 1.0)).astype(x.dtype)]


@power.kernel("NUMPY")
def power_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    exponent, scale, shift = (
        call.op.get_float(name, default) for name, default in (("power", 1.0), ("scale", 1.0), ("shift", 0.0))
    )
    if _constant_power(call.op):
        value = power_reference(call.op, np.zeros((), y.dtype))[0]
        return lambda: y.fill(value)

    def run() -> None:
        np.multiply(x, y.dtype.type(scale), out=y)
        np.add(y, y.dtype.type(shift), out=y)
        if exponent == 2.0:
            np.multiply(y, y, out=y)
        elif exponent != 1.0:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                np.power(y, y.dtype.type(exponent), out=y)

    return run


def _log_of_base(op: OperatorDef) -> float:
    """The natural logarithm of ``base``; its default, -1, stands for e."""
    base = op.get_float("base", -1.0)
    if base != -1.0 and not base > 0:
        raise ArgumentError(op, f"base must be positive, or -1 for e, got {base}")
    return 1.0 if base == -1.0 else math.log(base)


@operator("Exp", domain="caffe", dtypes=FLOATS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def exp(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = base ** (shift + scale * X); base is e (-1), scale 1, shift 0."""
    _log_of_base(op)
    return [x]


@exp.reference
def exp_reference(op: OperatorDef, x: Array) -> List[Any]:
    exponent = op.get_float("shift", 0.0) + op.get_float("scale", 1.0) * x.astype(np.float64)
    with np.errstate(over="ignore"):
        return [np.exp(_log_of_base(op) * exponent).astype(x.dtype)]


@operator("Log", domain="caffe", dtypes=FLOATS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def log(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = the logarithm to ``base`` of shift + scale * X; base is e (-1), scale 1, shift 0."""
    if _log_of_base(op) == 0:
        raise ArgumentError(op, "base must not be 1")
    return [x]


@log.reference
def log_reference(op: OperatorDef, x: Array) -> List[Any]:
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithm = np.log(op.get_float("shift", 0.0) + op.get_float("scale", 1.0) * x.astype(np.float64))
    return [(logarithm / _log_of_base(op)).astype(x.dtype)]


@operator("Threshold", domain="caffe", dtypes=FLOATS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def threshold(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = 1 where X > threshold (0), else 0."""
    return [x]


@threshold.reference
def threshold_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [(x > x.dtype.type(op.get_float("threshold", 0.0))).astype(x.dtype)]


@operator("Swish", domain="caffe", dtypes=FLOATS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def swish(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X / (1 + exp(-beta * X)); beta is 1."""
    return [x]


@swish.reference
def swish_reference(op: OperatorDef, x: Array) -> List[Any]:
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        return [(wide / (1 + np.exp(-op.get_float("beta", 1.0) * wide))).astype(x.dtype)]
