"""The rules: how an operator on floats becomes operators on integers.

@rule("MaxPool")
def max_pool(net, op):
    ...                     # adds operators to the net and returns None, or returns why it cannot, adding nothing
"""

from __future__ import annotations

from typing import Callable, Dict, Optional

from optimize.quantization.integers.net import IntegerNet
from runtime_arm.netdef import OperatorDef

VIEWS = (
    "Reshape",
    "onnx.Reshape",
    "Flatten",
    "onnx.Flatten",
    "Squeeze",
    "onnx.Squeeze",
    "ExpandDims",
    "onnx.Unsqueeze",
    "FlattenToVec",
)  # give a blob another shape and nothing else

Rule = Callable[[IntegerNet, OperatorDef], Optional[str]]
RULES: Dict[str, Rule] = {}


def rule(*types: str) -> Callable[[Rule], Rule]:
    """Decorator: the rule of operators of these full types."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(types, function))
        return function

    return register


def leaves_net(net: IntegerNet, name: str) -> bool:
    """Whether the blob is an output of the net, perhaps in another shape, and nothing else reads it."""
    program = net.program
    readers = [program.net.op[place] for place in program.readers(name)]
    if not readers:
        return name in program.net.external_output
    return all(op.full_type in VIEWS and leaves_net(net, op.output[0]) for op in readers)
