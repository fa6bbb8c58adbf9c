"""The gradient of ONNX's Resize, armnet's own operator."""

from __future__ import annotations

from runtime_arm.operators.image.caffe2_gradients import declare_resampling
from runtime_arm.operators.image.onnx import axes_of, resize

declare_resampling(
    "ResizeGradient",
    "armnet",
    resize,
    axes_of,
    "dX = the sum of dY times each element's weights. Inputs: dY, X, roi, scales, sizes. Arguments as for Resize.",
)
