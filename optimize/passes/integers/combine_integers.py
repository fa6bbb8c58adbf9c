"""Sums, products of elements, means over pictures and joined blobs become onnxruntime's operators on integers."""

from __future__ import annotations

from typing import List, Optional

from optimize.passes.integers.limits import LIMITING, limited
from optimize.passes.integers.multiply_integers import MICROSOFT, window_arguments
from optimize.passes.integers.quantised import Integers, Quantised, quantize
from optimize.rewriting.patterns import Operator, operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef

BINARY = {"Add": "QLinearAdd", "Sum": "QLinearAdd", "Mul": "QLinearMul"}
POOLS = ("AveragePool", "AveragePool2D", "onnx.AveragePool")


def _operands(integers: Integers, op: OperatorDef, y: Quantised) -> List[Quantised]:
    """The integers behind all inputs, each with one scale and all of the output's dtype."""
    found = [integers.one_scale(name) for name in op.input]
    if any(one.dtype != y.dtype for one in found):
        raise Refusal("its inputs and its output are integers of different types")
    return found


def _combine(
    program: Program, binary: OperatorDef, quantize: OperatorDef, activation: Optional[OperatorDef] = None
) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    if len(binary.input) != 2 or binary.get_int("broadcast", 0):
        raise Refusal("it has not two operands that broadcast as NumPy's do")
    a, b = _operands(integers, binary, y)
    inputs = [a.blob, *a.named, b.blob, *b.named, *y.named]
    op = OperatorDef.of(BINARY[binary.type], inputs, [y.blob], domain=MICROSOFT, name=binary.name)
    return integers.rewrite(*limited(integers, op, y, activation))


def _average(program: Program, pool: OperatorDef, quantize: OperatorDef) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    (x,) = _operands(integers, pool, y)
    whole = pool.get_bool("global_pooling")
    type = "QLinearGlobalAveragePool" if whole else "QLinearAveragePool"
    op = OperatorDef.of(type, [x.blob, *x.named, *y.named], [y.blob], domain=MICROSOFT, name=pool.name)
    if pool.domain:
        op = op.replace(arg=pool.arg)
    elif not whole:
        op = op.with_args(**window_arguments(pool))
    return integers.rewrite(op)


def _join(program: Program, join: OperatorDef, quantize: OperatorDef) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    if join.get_int("add_axis", 0) or join.get_str("order", "NCHW") != "NCHW":
        raise Refusal("it joins along a new axis, or one that an order of dimensions names")
    parts = _operands(integers, join, y)
    inputs = [*y.named, *(name for part in parts for name in (part.blob, *part.named))]
    op = OperatorDef.of("QLinearConcat", inputs, [y.blob], domain=MICROSOFT, name=join.name)
    return integers.rewrite(op.with_args(axis=join.get_int("axis", 1)))


_BINARY = operator([*BINARY, *(f"onnx.{type}" for type in BINARY)], "binary")
_POOL: Operator = operator(POOLS, "pool")

PASS = Pass(
    "combine_integers",
    (
        rule(quantize(_BINARY), quantize(operator(LIMITING, "activation")(_BINARY)), to=_combine),
        rule(quantize(_POOL), to=_average),
        rule(quantize(operator(("Concat", "onnx.Concat"), "join")), to=_join),
    ),
)
