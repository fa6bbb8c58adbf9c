"""ReLU after a convolution: Caffe2 has an operator for the two."""

from __future__ import annotations

from dataclasses import replace

from optimize.layers.linear import CONVOLUTIONS
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule


def _fuse(program: Program, match: Match) -> Rewrite:
    conv, relu = program.operators(match)
    return Rewrite((replace(conv, type="ConvRelu", output=relu.output),))


PASS = Pass("fuse_relu", (Rule(follows(CONVOLUTIONS, {"Relu", "onnx.Relu"}), _fuse),))
