"""What several engines ask of their operands."""

from __future__ import annotations

from typing import Optional

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.registry.kernel import Call, Specs
from runtime_arm.registry.specs import TensorSpec

DTYPES = ("float32", "float64")  # what BLAS multiplies


def convolution_in(op: OperatorDef, inputs: Specs) -> Convolution:
    """The convolution of input 0 with the filters of input 1."""
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    return convolution_of(op, x, w)


def wrong_dtype(spec: Optional[TensorSpec]) -> Optional[str]:
    """Why BLAS cannot multiply with the blob; None if it can."""
    assert spec is not None
    return None if spec.dtype.name in DTYPES else f"the type must be one of {', '.join(DTYPES)}, got {spec.dtype.name}"


def tile_refusal(op: OperatorDef, inputs: Specs) -> Optional[str]:
    """Why neither FFT nor WINOGRAD can run a convolution: both transform overlapping tiles of an image. None if nothing
    here keeps them from it."""
    convolution, wrong = convolution_in(op, inputs), wrong_dtype(inputs[0])
    window = convolution.window
    if wrong is not None:
        return wrong
    if window.ndim != 2:
        return f"there must be two spatial dimensions, got {window.ndim}"
    if set(window.stride) != {1}:
        return f"the stride must be 1, got {list(window.stride)}"
    return "the order must be NCHW" if convolution.channels_last else None


def changes(inputs: Specs) -> bool:
    """Whether the weights, input 1, may be others in each run."""
    w = inputs[1]
    assert w is not None
    return w.value is None


def beyond_three(window: Window) -> Optional[str]:
    """Why a kernel of three dimensions cannot run over the window; None if it can."""
    return None if window.in_three() else f"there may be three spatial dimensions at most, got {window.ndim}"


def bias_of(call: Call) -> Optional[Array]:
    """Input 2, if it is given."""
    bias: Optional[Array] = call.inputs[2] if len(call.inputs) > 2 else None
    return bias
