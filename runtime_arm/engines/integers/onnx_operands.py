"""The operands of ONNX's convolutions of 8-bit integers, for all engines."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import numpy as np

from runtime_arm.engines.integers.arithmetic import INT32
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.operators.quantised.parameters import all_known
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.specs import TensorSpec


class Operands(NamedTuple):
    """Where a convolution's operands are among the inputs of its operator."""

    x: int
    x_zero_point: int
    w: int
    w_zero_point: int
    bias: int


QLINEAR = Operands(0, 2, 3, 5, 8)
OPERANDS = {"QLinearConv": QLINEAR, "ConvInteger": Operands(0, 2, 1, 3, -1)}


def operand(inputs: Sequence[Any], index: int) -> Any:
    return inputs[index] if 0 <= index < len(inputs) else None


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    operands = OPERANDS[op.type]
    x, w = inputs[operands.x], inputs[operands.w]
    assert x is not None
    assert w is not None
    dynamic = {operands.x} if op.type == "QLinearConv" else {operands.x, operands.x_zero_point}
    if not all_known([spec for i, spec in enumerate(inputs) if i not in dynamic]):
        return "weights, scales and zero points must be constants"
    convolution = convolution_of(op, x, w)
    if convolution.window.in_three() is None:
        return f"there may be up to 3 spatial dimensions, got {convolution.window.ndim}"
    if outputs[0].dtype == np.int32 and convolution.terms * 255 * 255 >= INT32:
        return "the sums may exceed 32 bits"
    return None
