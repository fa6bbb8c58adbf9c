"""Sums, products of elements, means, softmax and joined blobs become onnxruntime's operators on integers."""

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
    """The integers that all inputs are made of, each with one scale and all of the output's dtype."""
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
        raise Refusal("it does not have two operands that broadcast as in NumPy")
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


def _mean(program: Program, mean: OperatorDef, quantize: OperatorDef) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    x, *others = _operands(integers, mean.replace(input=mean.input[:1]), y)
    rank = len(program.dims(x.blob) or ())
    given = program.value(mean.input[1]) if len(mean.input) > 1 and mean.input[1] else None
    if not rank or others or (len(mean.input) > 1 and mean.input[1] and given is None):
        raise Refusal("its axes are not known")
    asked = mean.get_ints("axes") if given is None else given.reshape(-1)
    if not len(asked) and mean.get_bool("noop_with_empty_axes"):
        raise Refusal("it has no axes")
    axes, keep = sorted({int(axis) % rank for axis in asked} or range(rank)), mean.get_bool("keepdims", True)
    whole = keep and rank > 2 and axes == list(range(2, rank))
    type = "QLinearGlobalAveragePool" if whole else "QLinearReduceMean"
    op = OperatorDef.of(type, [x.blob, *x.named, *y.named], [y.blob], domain=MICROSOFT, name=mean.name)
    return integers.rewrite(op if whole else op.with_args(axes=axes, keepdims=int(keep)))


def _softmax(program: Program, softmax: OperatorDef, quantize: OperatorDef) -> Rewrite:
    """Caffe2's is over all dimensions from the axis on, as ONNX's was before opset 13."""
    integers = Integers(program)
    y = integers.made_by(quantize)
    (x,) = _operands(integers, softmax, y)
    op = OperatorDef.of("QLinearSoftmax", [x.blob, *x.named, *y.named], [y.blob], domain=MICROSOFT, name=softmax.name)
    axis = softmax.get_int("axis", -1 if softmax.domain else 1)
    return integers.rewrite(op.with_args(axis=axis, opset=13 if softmax.domain else 12))


def _join(program: Program, join: OperatorDef, quantize: OperatorDef) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    if join.get_int("add_axis", 0) or join.get_str("order", "NCHW") != "NCHW":
        raise Refusal("it joins along a new axis, or along one that depends on the order of dimensions")
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
        rule(quantize(operator(("ReduceMean", "onnx.ReduceMean"), "mean")), to=_mean),
        rule(quantize(operator(("Softmax", "onnx.Softmax"), "softmax")), to=_softmax),
        rule(quantize(operator(("Concat", "onnx.Concat"), "join")), to=_join),
    ),
)
