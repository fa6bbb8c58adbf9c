"""Gradient makers of the operators that resize images."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("ResizeNearest", "ResizeNearest3D", "UpsampleBilinear")
def resize(forward: Forward) -> Backward:
    scales = [forward.input(1)] if len(forward.op.input) > 1 else []
    return forward.by(f"{forward.op.type}Gradient", [forward.gradient(), forward.like(0), *scales], [0])


@gradient("Resize", domain="onnx")
def onnx_resize(forward: Forward) -> Backward:
    rest = forward.given(*range(1, len(forward.op.input)))
    return forward.by("ResizeGradient", [forward.gradient(), forward.like(0), *rest], [0], domain="armnet")
