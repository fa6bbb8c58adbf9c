"""The operators and operands of golden vectors: operators with fast kernels, and those with delicate arithmetic.

One module per subject; ``case`` says how operands are written.
"""

from __future__ import annotations

from typing import List

from device_tests.host.golden_cases import (
    convolution,
    detection,
    elementwise,
    gradients,
    language,
    layout,
    normalisation,
    quantised,
    tabular,
    tflite,
    training,
)
from device_tests.host.golden_cases.case import Case

_SUBJECTS = (
    elementwise.elementwise,
    convolution.convolution,
    normalisation.normalisation,
    layout.layout,
    detection.detection,
    quantised.quantised,
    quantised.packed,
    tflite.layers,
    tflite.elementwise,
    tflite.rows,
    tflite.int16,
    tflite.hybrid,
    tflite.recurrent,
    tabular.tabular,
    language.language,
    language.blocks,
    gradients.slopes,
    gradients.layer_gradients,
    gradients.norm_gradients,
    gradients.layout_gradients,
    training.training,
)


def golden_cases() -> List[Case]:
    """All cases, subject by subject."""
    return [case for subject in _SUBJECTS for case in subject()]
