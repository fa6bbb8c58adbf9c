"""Gradient makers of the convolutions."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose", "LC", "LC1D", "LC2D", "LC3D")
def conv(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    if len(forward.op.input) > 2:
        return forward.by(f"{forward.op.type}Gradient", given, [1, 2, 0])
    return forward.by(f"{forward.op.type}Gradient", given, [1, 0], no_bias=1)


@gradient("Im2Col")
def im2col(forward: Forward) -> Backward:
    return forward.by("Col2Im", [forward.gradient(), forward.like(0)], [0])


@gradient("Col2Im")
def col2im(forward: Forward) -> Backward:
    return forward.by("Im2Col", [forward.gradient()], [0])


@gradient("Conv", "ConvTranspose", domain="onnx")
def onnx_conv(forward: Forward) -> Backward:
    given = [forward.input(0), forward.input(1), forward.gradient()]
    type = f"{forward.op.type}Gradient"
    if any(forward.given(2)):
        return forward.by(type, given, [1, 2, 0], domain="armnet")
    return forward.by(type, given, [1, 0], domain="armnet", no_bias=1)
