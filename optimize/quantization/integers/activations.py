"""Activations that a quantised operator does itself, by limiting its integers."""

from __future__ import annotations

from typing import Optional, Tuple

from optimize.quantization.integers.net import IntegerNet
from runtime_arm.netdef import OperatorDef

_LIMITS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}


def activation_of(op: OperatorDef) -> Optional[str]:
    """The name of the activation that an operator is; None if it is none of those."""
    if op.type == "Relu":
        return "RELU"
    if op.type == "Clip" and not op.domain and op.has("min"):
        return _LIMITS.get((op.get_float("min"), op.get_float("max", float("inf"))))
    return None


def following(net: IntegerNet, op: OperatorDef) -> Tuple[str, Optional[str]]:
    """The blob that an operator and the activation behind it make together, and the activation's name.

    The activation is taken in if nothing else reads the blob between the two.
    """
    output, program = op.output[0], net.program
    places = program.readers(output)
    if len(places) == 1 and program.why_kept(output, places) is None:
        reader = program.net.op[places[0]]
        activation = activation_of(reader)
        if activation is not None and reader.output[0] in net.scales:
            net.done.add(places[0])
            return reader.output[0], activation
    return output, None
