"""Removes an operator that flattens the input of a fully connected layer: the layer itself reads it as a matrix."""

from __future__ import annotations

from optimize.layers.linear import FULLY_CONNECTED
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef


def _flatten(program: Program, x: str, view: OperatorDef, layer: OperatorDef) -> Rewrite:
    if layer.get_int("axis", 1) != 1:
        raise Refusal("the rows of the matrix are not those of the first dimension")
    if view.full_type != "Flatten" or view.get_int("axis", 1) != 1:
        _require_same_rows(program, x, view.output[0])
    return Rewrite((layer.replace(input=(x, *layer.input[1:])),))


def _require_same_rows(program: Program, x: str, y: str) -> None:
    for before, after in zip(program.specs(x), program.specs(y)):
        if before is None or after is None:
            raise Refusal(f"the shape of {x!r} is not known")
        if not before.shape or not after.shape or before.shape[0] != after.shape[0]:
            raise Refusal(f"the first dimension of {before} changes in {after}")


_VIEWS = {
    "ExpandDims",
    "Flatten",
    "Reshape",
    "Squeeze",
    "onnx.Flatten",
    "onnx.Reshape",
    "onnx.Squeeze",
    "onnx.Unsqueeze",
}
_VIEW = operator(_VIEWS, "view")
_LAYER = operator(FULLY_CONNECTED, "layer")

PASS = Pass("flatten_fc", (rule(_LAYER(_VIEW("x")), to=_flatten),))
