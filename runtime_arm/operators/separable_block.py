"""SeparableBlock: what a plan makes of three convolutions whose results between them nobody else reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, List, Optional, Sequence

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry import lookup, operator
from runtime_arm.tensor import TensorSpec

INPUTS = ("x", "expand w", "expand b", "depthwise w", "depthwise b", "project w", "project b", "addend", "slope")
RESULTS = ("expanded", "filtered", "y")


@operator("SeparableBlock", domain="armnet", inputs=(9, 9))
def separable_block(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = the last of the operators in the net ``layers``, which read each other's results: a convolution, one of every
    channel for itself, and one of 1x1, which may add and have any activation.

    Inputs: X, then W and b of each, the addend and PRelu's slope; where one is left out, its name is empty.
    """
    return results_of(op, inputs)[-1:]


@separable_block.reference
def separable_block_reference(op: OperatorDef, *inputs: Optional[Array]) -> Sequence[Any]:
    blobs: Dict[str, Any] = dict(zip(INPUTS, inputs))
    for layer in layers(op).op:
        operands = [blobs[name] if name else None for name in layer.input]
        blobs[layer.output[0]] = lookup(layer).evaluate(layer, operands)[0]
    return [blobs["y"]]


def results_of(op: OperatorDef, inputs: Sequence[Optional[TensorSpec]]) -> List[TensorSpec]:
    """What the three layers make."""
    specs: Dict[str, Optional[TensorSpec]] = dict(zip(INPUTS, inputs))
    for layer in layers(op).op:
        operands = [specs[name] if name else None for name in layer.input]
        specs[layer.output[0]] = lookup(layer).infer(layer, operands)[0]
    found = [specs[name] for name in RESULTS]
    return [spec for spec in found if spec is not None]


def layers(op: OperatorDef) -> NetDef:
    """The three operators; their blobs have the names in INPUTS and RESULTS."""
    net = op.get_net("layers")
    known = {*INPUTS, ""}
    for layer, name in zip(net.op, RESULTS):
        if not known.issuperset(layer.input) or layer.output != (name,):
            raise ArgumentError(op, f"{name!r} must be made of {', '.join(filter(None, known))}")
        known.add(name)
    if len(net.op) != len(RESULTS):
        raise ArgumentError(op, f"layers must be {len(RESULTS)} operators, got {len(net.op)}")
    return net


def block_of(expand: OperatorDef, depthwise: OperatorDef, project: OperatorDef) -> OperatorDef:
    """The operator that does what these three do, one after the other."""
    x, (expanded, filtered, y) = INPUTS[0], RESULTS
    net = NetDef(name="layers", op=(
        _renamed(expand, (x, *INPUTS[1:3]), expanded),
        _renamed(depthwise, (expanded, *INPUTS[3:5]), filtered),
        _renamed(project, (filtered, *INPUTS[5:9]), y),
    ))  # fmt: skip
    names = [expand.input[0], *_operands(expand)[:2], *_operands(depthwise)[:2], *_operands(project)]
    return OperatorDef.of("SeparableBlock", names, list(project.output), domain="armnet", layers=net)


def _operands(op: OperatorDef) -> Sequence[str]:
    """What a convolution reads but X: W, b, addend, slope; "" for what it does not."""
    return [*op.input[1:], "", "", "", ""][:4]


def _renamed(op: OperatorDef, inputs: Sequence[str], output: str) -> OperatorDef:
    names = tuple(new if old else "" for old, new in zip(op.input, inputs))
    return replace(op, input=names, output=(output,), name="", debug_info="")


__all__ = ["INPUTS", "RESULTS", "block_of", "layers", "results_of", "separable_block"]
