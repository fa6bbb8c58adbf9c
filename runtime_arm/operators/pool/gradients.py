"""Gradient makers of the pools."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient(
    "MaxPool",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "AveragePool",
    "AveragePool1D",
    "AveragePool2D",
    "AveragePool3D",
    "LpPool",
)
def pool(forward: Forward) -> Backward:
    given = [forward.input(0), forward.output(0), forward.gradient()]
    return forward.by(f"{forward.op.type}Gradient", given, [0])
