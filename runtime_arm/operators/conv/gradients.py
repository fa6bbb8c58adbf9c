"""Gradient makers of the convolutions."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("Conv", "Conv1D", "Conv2D", "Conv3D")
def conv(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    if len(forward.op.input) > 2:
        return forward.by(f"{forward.op.type}Gradient", given, [1, 2, 0])
    return forward.by(f"{forward.op.type}Gradient", given, [1, 0], no_bias=1)
