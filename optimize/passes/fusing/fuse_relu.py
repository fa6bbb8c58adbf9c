"""Fuses ReLU into the convolution before it, as Caffe2's operator ConvRelu."""

from __future__ import annotations

from optimize.layers.linear import CONVOLUTIONS
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass
from runtime_arm.netdef import OperatorDef


def _fuse(program: Program, conv: OperatorDef, relu: OperatorDef) -> Rewrite:
    return Rewrite((conv.replace(type="ConvRelu", output=relu.output),))


_CONV = operator(CONVOLUTIONS, "conv")
_RELU = operator({"Relu", "onnx.Relu"}, "relu")

PASS = Pass("fuse_relu", (rule(_RELU(_CONV), to=_fuse),))
