"""Fills do not depend on their inputs: no gradient flows back through them."""

from __future__ import annotations

from runtime_arm.registry.families import FAMILIES
from runtime_arm.registry.gradients import no_gradient

for _family in ("operators.fills.caffe2", "operators.fills.random"):
    no_gradient(*FAMILIES[""][_family].split(), stops=True)
no_gradient("Size", "Range", stops=True)
no_gradient("Shape", "HasElements", "IsEmpty", "LengthsToShape")
