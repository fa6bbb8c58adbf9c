"""Gradient makers of the operators on regions. Regions have no gradient."""

from __future__ import annotations

from runtime_arm.registry.gradients import Backward, Forward, gradient


@gradient("RoIAlign")
def roi_align(forward: Forward) -> Backward:
    return forward.by("RoIAlignGradient", [forward.like(0), forward.input(1), forward.gradient()], [0])
