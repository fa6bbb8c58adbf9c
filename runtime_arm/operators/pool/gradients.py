"""Gradient makers of the pools."""

from __future__ import annotations

from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import AVERAGE_POOLS, MAX_POOLS
from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("MaxPoolWithOffsets", domain="armnet")
def max_pool_with_offsets(forward: Forward) -> Backward:
    """From the offsets; of X the shape alone is read, which is known without X."""
    shape, dx = f"{forward.like(0)}_shape", forward.name(0)
    inputs = [forward.output(1), forward.gradient(), shape]
    ops = [OperatorDef.of("Shape", [forward.like(0)], [shape]), forward.make("MaxPoolOffsetsGradient", inputs, [dx])]
    return forward.result(ops, {0: dx})


@gradient(*MAX_POOLS, *AVERAGE_POOLS, "LpPool")
def pool(forward: Forward) -> Backward:
    given = [forward.input(0), forward.output(0), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0])


@gradient("MaxPool", "AveragePool", domain="onnx")
def onnx_pool(forward: Forward) -> Backward:
    given = [forward.input(0), forward.output(0), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0], domain="armnet")
