"""Layers that quantise what they read while the net runs: TensorFlow Lite's dynamic range.

Weights become int8 with a scale for each filter; inputs and results stay floats. The products are of integers, see
``runtime_arm/operators/quantised/tflite/hybrid.py``.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import numpy as np

from optimize.quantization.integers.products import filter_scales, quantised_rows
from optimize.quantization.layers import Layer, layers_at
from optimize.quantization.report import LayerReport
from optimize.quantization.signal import decibels, noise
from optimize.quantization.table import DYNAMIC, Choice
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.netdef.narrow import stored_nbytes
from runtime_arm.operators.common.windows import channels_last

DYNAMIC_CONVOLUTIONS = ("Conv", "Conv2D", "ConvRelu")
LAYERS = ("FC", "FCTransposed", "MatMul", "BatchMatMul", "onnx.MatMul", "onnx.Gemm")


class _Hybrid:
    """The rule for one run of ``quantize``."""

    def __init__(self, choose: Callable[[str], Choice], done: List[LayerReport]):
        self._choose, self._done = choose, done

    def find(self, program: Program, start: int) -> Iterator[Match]:
        for place in range(start, len(program.net.op)):
            if program.net.op[place].full_type in (*DYNAMIC_CONVOLUTIONS, *LAYERS):
                for layer in layers_at(program, place):
                    if layer.weight == layer.op.input[1] and self._choose(layer.name).activations == DYNAMIC:
                        yield Match((place,), captured={"layer": layer})

    def rewrite(self, program: Program, match: Match) -> Rewrite:
        layer: Layer = match.captured["layer"]
        weight = program.value(layer.weight)
        assert weight is not None
        change = _convolution if layer.op.full_type in DYNAMIC_CONVOLUTIONS else _rows
        ops, filters = change(program, layer.op, weight)
        scales = filter_scales(filters.reshape(len(filters), -1))
        integers = quantised_rows(filters.reshape(len(filters), -1), scales)
        name = program.fresh(f"{layer.weight}_int8")
        made = []
        for op in ops:
            if op.domain == "tflite":
                op = op.replace(input=(op.input[0], name, *op.input[2:]))
                op = op.with_args(W_scales=scales)
            made.append(op)
        restored = integers * scales[:, np.newaxis]
        snr = decibels([noise(filters.reshape(restored.shape), restored)])
        choice = Choice("int8", DYNAMIC)
        self._done.append(LayerReport(layer.name, choice, weight.nbytes, integers.nbytes + stored_nbytes(scales), snr))
        return Rewrite(tuple(made), {name: integers.reshape(filters.shape)})


def _convolution(program: Program, op: OperatorDef, weight: Array) -> Any:
    """The operators that replace a convolution, and its filters."""
    channels = (program.dims(op.input[0]) or (None, None))[1]
    group = op.get_int("group", 1)
    if channels_last(op) or weight.ndim != 4:
        raise Refusal("only convolutions of pictures (N, C, H, W) quantise what they read")
    if group not in (1, channels):
        raise Refusal("it has groups of several channels")
    type = "HybridConv" if group == 1 else "HybridDepthwiseConv"
    activated = op.type == "ConvRelu"
    sums = program.fresh(f"{op.output[0]}_sums") if activated else op.output[0]
    layer = OperatorDef.of(type, op.input, [sums], domain="tflite", name=op.name).replace(arg=op.arg)
    relu = [OperatorDef.of("Relu", [sums], op.output)] if activated else []
    return [layer, *relu], weight


def _rows(program: Program, op: OperatorDef, weight: Array) -> Any:
    """The same for a layer whose rows meet all weights."""
    rank, axis = len(program.dims(op.input[0]) or ()), op.get_int("axis", 1)
    if weight.ndim != 2 or rank < 2 or op.get_bool("trans_a") or op.get_bool("transA"):
        raise Refusal("its rows are not known to be the last dimension of what it reads")
    if op.get_float("alpha", 1.0) != 1.0 or op.get_float("beta", 1.0) != 1.0 or op.has("axis_a") or op.has("axis_b"):
        raise Refusal("it scales its factors, or counts their dimensions otherwise")
    columns = op.type == "FC" or op.get_bool("trans_b") or op.get_bool("transB")
    filters = weight if columns else np.ascontiguousarray(weight.T)
    bias = op.input[2] if len(op.input) > 2 else ""
    value = program.value(bias) if bias else None
    if bias and (value is None or value.shape != (len(filters),) or value.dtype != np.float32):
        raise Refusal("what it adds is no constant, one number for each column")
    x, before = op.input[0], []
    if op.type in ("FC", "FCTransposed") and axis != rank - 1:
        if axis != 1:
            raise Refusal("its rows have several dimensions")
        x = program.fresh(f"{op.output[0]}_rows")
        before = [OperatorDef.of("Flatten", [op.input[0]], [x])]
    inputs = [x, op.input[1], *([bias] if bias else [])]
    layer = OperatorDef.of("HybridFullyConnected", inputs, op.output[:1], domain="tflite", name=op.name, asymmetric=1)
    return [*before, layer], filters


def hybrid_layers(choose: Callable[[str], Choice], done: List[LayerReport]) -> Pass:
    """The pass. choose: what a layer is stored and computed in, by its name. done: gets a line for each layer."""
    hybrid = _Hybrid(choose, done)
    return Pass("hybrid_layers", (Rule(hybrid.find, hybrid.rewrite),))
