"""Convolutions and matrix products between integers become ONNX's and onnxruntime's operators on integers.

With a QuantizeLinear after them, and perhaps a ReLU or Clip in between, these are QLinearConv, QGemm and QLinearMatMul.
Products without one give floats, by QGemm and MatMulIntegerToFloat.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from optimize.layers.linear import CONVOLUTIONS, FULLY_CONNECTED
from optimize.passes.integers.limits import LIMITING, limited
from optimize.passes.integers.quantised import QUANTIZE, Integers, Quantised, quantize
from optimize.rewriting.patterns import Operator, operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, source
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import caffe2_list, channels_last

QDQ_CONVOLUTIONS = CONVOLUTIONS | {"onnx.Conv"}  # in ONNX's QDQ form
QDQ_LAYERS = FULLY_CONNECTED | {"onnx.Gemm"}
QDQ_PRODUCTS = ("MatMul", "BatchMatMul", "onnx.MatMul")
MICROSOFT = "com.microsoft"


def window_arguments(op: OperatorDef) -> Dict[str, Any]:
    """The arguments of Caffe2's window under ONNX's names."""
    if op.get_int("legacy_pad", 0) or channels_last(op):
        raise Refusal("its padding depends on sizes, or its channels are last")
    given = {
        "kernel_shape": caffe2_list(op, "kernel", "hw"),
        "strides": caffe2_list(op, "stride", "hw"),
        "dilations": caffe2_list(op, "dilation", "hw"),
        "pads": caffe2_list(op, "pad", "tlbr"),
    }
    return {name: values for name, values in given.items() if values}


def _convolve(
    program: Program, layer: OperatorDef, quantize: OperatorDef, activation: Optional[OperatorDef] = None
) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    x, w = integers.one_scale(layer.input[0]), integers.weight_behind(layer.input[1], 0)
    filters = (program.dims(w.blob) or (0,))[0]
    bias = layer.input[2] if len(layer.input) > 2 else ""
    inputs = [x.blob, *x.named, w.blob, *w.named, *y.named]
    if bias:
        inputs.append(integers.bias(bias, x, w, y, filters or 0))
    op = OperatorDef.of("QLinearConv", inputs, [y.blob], domain="onnx", name=layer.name)
    if layer.domain:
        op = op.replace(arg=layer.arg)
    else:
        op = op.with_args(**window_arguments(layer), group=layer.get_int("group", 1))
    return integers.rewrite(*limited(integers, op, y, activation))


class _Layer(NamedTuple):
    """The integers behind a layer of two matrices. transposed: W is (outputs, inputs). bias: a name or nothing."""

    x: Quantised
    w: Quantised
    transposed: bool
    columns: int
    bias: str


def _layer(integers: Integers, layer: OperatorDef) -> _Layer:
    x = integers.one_scale(layer.input[0])
    dims = integers.program.dims(x.blob)
    if dims is None or len(dims) != 2 or layer.get_int("axis", 1) != 1 or layer.get_int("axis_w", 1) != 1:
        raise Refusal("its first factor is not known to be a matrix")
    if layer.get_float("alpha", 1.0) != 1.0 or layer.get_float("beta", 1.0) != 1.0 or layer.get_int("transA", 0):
        raise Refusal("a factor of it is transposed or scaled")
    transposed = layer.type == "FC" or bool(layer.get_int("transB", 0))
    w = integers.weight_behind(layer.input[1], 0 if transposed else 1)
    columns = (integers.program.dims(w.blob) or (0, 0))[0 if transposed else 1]
    return _Layer(x, w, transposed, columns or 0, layer.input[2] if len(layer.input) > 2 else "")


def _connect(
    program: Program, layer: OperatorDef, quantize: OperatorDef, activation: Optional[OperatorDef] = None
) -> Rewrite:
    integers = Integers(program)
    y, (x, w, transposed, columns, bias) = integers.made_by(quantize), _layer(integers, layer)
    c = integers.bias(bias, x, w, y, columns) if bias else ""
    inputs = [x.blob, *x.named, w.blob, *w.named, c, *y.named]
    op = OperatorDef.of("QGemm", inputs, [y.blob], domain=MICROSOFT, name=layer.name)
    return integers.rewrite(*limited(integers, op.with_args(transB=1) if transposed else op, y, activation))


def _connect_to_floats(program: Program, layer: OperatorDef) -> Rewrite:
    """A bias of integers is added to the sums, one of floats to the result."""
    integers = Integers(program)
    x, w, transposed, columns, bias = _layer(integers, layer)
    if not bias or source(program, bias) is not None:
        c = [integers.bias(bias, x, w, None, columns)] if bias else []
        op = OperatorDef.of("QGemm", [x.blob, *x.named, w.blob, *w.named, *c], layer.output[:1], domain=MICROSOFT)
        return integers.rewrite(op.with_args(transB=1 if transposed else None).replace(name=layer.name))
    value, matrix = program.value(bias), program.value(w.blob)
    if value is None or value.shape != (columns,) or matrix is None:
        raise Refusal(f"the bias {bias!r} is not constant")
    name = integers.constant(f"{w.blob}_turned", np.ascontiguousarray(matrix.T)) if transposed else w.blob
    inputs = [x.blob, name, x.scale_name, w.scale_name, x.zero_name, w.zero_name, bias]
    op = OperatorDef.of("MatMulIntegerToFloat", inputs, layer.output[:1], domain=MICROSOFT, name=layer.name)
    return integers.rewrite(op)


def _factors(integers: Integers, product: OperatorDef) -> List[Quantised]:
    if any(product.get_int(name, 0) for name in ("trans_a", "trans_b", "axis_a", "axis_b", "broadcast")):
        raise Refusal("a factor of it is transposed")
    a, b = integers.one_scale(product.input[0]), integers.behind(product.input[1])
    dims = integers.program.dims(b.blob)
    if dims is None or (b.axis is not None and (b.axis != len(dims) - 1 or len(dims) != 2)):
        raise Refusal("the scales of the second factor are not one per column")
    if product.type == "MatMul" and not product.domain and integers.program.dims(a.blob) is None:
        raise Refusal("the dimensions of the first factor are not known")
    return [a, b]


def _multiply(
    program: Program, product: OperatorDef, quantize: OperatorDef, activation: Optional[OperatorDef] = None
) -> Rewrite:
    integers = Integers(program)
    y = integers.made_by(quantize)
    a, b = _factors(integers, product)
    inputs = [a.blob, *a.named, b.blob, *b.named, *y.named]
    op = OperatorDef.of("QLinearMatMul", inputs, [y.blob], domain="onnx", name=product.name)
    return integers.rewrite(*limited(integers, op, y, activation))


def _multiply_to_floats(program: Program, product: OperatorDef) -> Rewrite:
    integers = Integers(program)
    a, b = _factors(integers, product)
    inputs = [a.blob, b.blob, a.scale_name, b.scale_name, a.zero_name, b.zero_name]
    op = OperatorDef.of("MatMulIntegerToFloat", inputs, product.output[:1], domain=MICROSOFT, name=product.name)
    return integers.rewrite(op)


def _not_quantised(program: Program, op: OperatorDef) -> bool:
    places = program.readers(op.output[0])
    return len(places) != 1 or program.net.op[places[0]].full_type not in QUANTIZE


def with_limits(layer: Operator) -> List[Operator]:
    """A QuantizeLinear of the layer, and one of the layer's result after ReLU or Clip."""
    return [quantize(layer), quantize(operator(LIMITING, "activation")(layer))]


_CONVOLUTION, _LAYER, _PRODUCT = (
    operator(QDQ_CONVOLUTIONS, "layer"),
    operator(QDQ_LAYERS, "layer"),
    operator(QDQ_PRODUCTS, "product"),
)

PASS = Pass(
    "multiply_integers",
    (
        rule(*with_limits(_CONVOLUTION), to=_convolve),
        rule(*with_limits(_LAYER), to=_connect),
        rule(*with_limits(_PRODUCT), to=_multiply),
        rule(operator(QDQ_LAYERS, "layer", _not_quantised), to=_connect_to_floats),
        rule(operator(QDQ_PRODUCTS, "product", _not_quantised), to=_multiply_to_floats),
    ),
)
