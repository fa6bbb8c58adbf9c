"""Gradient maker of attention."""

from __future__ import annotations

from runtime_arm.errors import GradientError
from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("Attention", domain="onnx")
def attention(forward: Forward) -> Backward:
    if any(forward.given(4, 5, 6)) or any(forward.has_gradient(index) for index in (1, 2, 3)):
        raise GradientError(forward.op, "there is a gradient only of Y, and without a past or numbers of keys")
    mask = [name for name in forward.given(3) if name]
    given = [forward.gradient(), *forward.given(0, 1, 2), *mask]
    return forward.by("AttentionGradient", given, [0, 1, 2], domain="armnet")
