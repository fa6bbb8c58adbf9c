"""What FFT and WINOGRAD ask of a convolution alike: both transform overlapping tiles of an image."""

from __future__ import annotations

from typing import Optional

from runtime_arm.engines.conv.pointwise import DTYPES
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.registry.kernel import Specs


def convolution_in(op: OperatorDef, inputs: Specs) -> Convolution:
    """The convolution of input 0 with the filters of input 1, which it has."""
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    return convolution_of(op, x, w)


def refusal(op: OperatorDef, inputs: Specs) -> Optional[str]:
    """Why a convolution cannot be computed by its tiles, whatever the transform; None if it can."""
    x, w, convolution = inputs[0], inputs[1], convolution_in(op, inputs)
    assert x is not None
    assert w is not None
    window = convolution.window
    if x.dtype.name not in DTYPES:
        return f"the type must be one of {', '.join(DTYPES)}, got {x.dtype.name}"
    if window.ndim != 2:
        return f"there must be two spatial dimensions, got {window.ndim}"
    if set(window.stride) != {1}:
        return f"the stride must be 1, got {list(window.stride)}"
    if convolution.channels_last:
        return "the order must be NCHW"
    return None if w.value is not None else "the weights must be constant"
