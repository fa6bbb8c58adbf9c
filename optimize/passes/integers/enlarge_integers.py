"""Transposed convolutions and linear interpolations of pictures become TensorFlow Lite's operators on integers.

These operators have channels last, so pictures are transposed before them and back after them.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

import numpy as np

from optimize.layers.pictures import HEIGHT, WIDTH, interpolations, resized_axes, transposed_padding
from optimize.passes.integers.limits import limited
from optimize.passes.integers.multiply_integers import with_limits
from optimize.passes.integers.quantised import Integers, Quantised, quantize
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, merged
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.conv.transposed import transposed_of
from runtime_arm.registry.specs import TensorSpec

LITE = "tflite"
TO_LAST, TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
FARTHEST = 0.99  # steps from the floats' result, before either is rounded: then integers are at most one step apart
_STEPS = 255  # between the least and the largest of 8 bits


def _picture(program: Program, name: str) -> TensorSpec:
    """A picture (N, C, H, W), of which only the number of samples may be open."""
    specs, dims = program.specs(name), program.dims(name)
    if dims is None or len(dims) != 4 or None in dims[1:] or specs[0] is None:
        raise Refusal(f"{name!r} is not known to hold pictures (N, C, H, W) of one size")
    return specs[0]


def _around(integers: Integers, x: Quantised, y: str, *inner: OperatorDef) -> List[OperatorDef]:
    """These operators, on pictures with channels last, as a chain from x to y, whose channels are first."""
    names = [integers.program.fresh(f"{y}_{stage}") for stage in ("last", *(op.type for op in inner))]
    ops = [OperatorDef.of("Transpose", [x.blob], names[:1]).with_args(axes=TO_LAST)]
    ops += [op.replace(input=(a, *op.input), output=(b,)) for op, a, b in zip(inner, names, names[1:])]
    return [*ops, OperatorDef.of("Transpose", names[-1:], [y]).with_args(axes=TO_FIRST)]


# Transposed convolutions


def _spread(
    program: Program, layer: OperatorDef, quantize: OperatorDef, activation: Optional[OperatorDef] = None
) -> Rewrite:
    integers = Integers(program)
    y, x = integers.made_by(quantize), integers.one_scale(layer.input[0])
    w, picture = integers.weight_behind(layer.input[1], 1), _picture(program, x.blob)
    found = transposed_of(layer, picture, TensorSpec.known(_value(program, w.blob)))
    if found.group != 1 or found.channels_last or set(found.window.dilation) != {1}:
        raise Refusal("it has groups or dilations, or its channels are last")
    if x.dtype != y.dtype:
        raise Refusal("its input and its output are integers of different types")
    weights, zero = _filters(program, w, x)
    padding, image = transposed_padding(found.window), found.window.image
    whole = image if padding else _whole(found.window)
    inputs = [
        integers.constant(f"{w.blob}_filters", weights),
        integers.constant(f"{y.blob}_size", np.array(whole, np.int32)),
    ]
    if len(layer.input) > 2 and layer.input[2]:
        inputs.append(integers.bias(layer.input[2], x, w, y, found.filters))
    op = OperatorDef.of("QuantizedConvTranspose", inputs, [], domain=LITE, name=layer.name).with_args(
        strides=list(found.window.stride),
        auto_pad=padding or "VALID",
        X_scale=float(x.scale),
        X_zero_point=int(x.zero_point),
        W_scales=[float(scale) for scale in w.scale.reshape(-1)],
        W_zero_point=zero,
        Y_scale=float(y.scale),
        Y_zero_point=int(y.zero_point),
    )
    *ops, last = _around(integers, x, y.blob, op, *([] if padding else [_cut(integers, found.window)]))
    return integers.rewrite(*ops, *limited(integers, last, y, activation))


def _value(program: Program, name: str) -> Array:
    value = program.value(name)
    assert value is not None
    return value


def _filters(program: Program, w: Quantised, x: Quantised) -> Tuple[Array, int]:
    """(C, M, kh, kw) as (M, kh, kw, C) in the dtype of X, and their zero point in that dtype: 0 for int8."""
    zeros = w.zero_point.astype(np.int16).reshape([1, -1, 1, 1])
    centred = (_value(program, w.blob).astype(np.int16) - zeros).transpose(1, 2, 3, 0)
    zero = max(0, -int(centred.min(initial=0))) if x.dtype == np.uint8 else 0
    limits, moved = np.iinfo(x.dtype), centred + zero
    if moved.size and not limits.min <= int(moved.min()) <= int(moved.max()) <= limits.max:
        raise Refusal(f"{w.blob!r}, minus its zero points, does not fit into {x.dtype.name}")
    return moved.astype(x.dtype), zero


def _whole(window: Window) -> List[int]:
    """The sizes of the result before cropping."""
    sides = zip(window.output, window.stride, window.kernel, window.head, window.image)
    return [max((n - 1) * s + k, head + y) for n, s, k, head, y in sides]


def _cut(integers: Integers, window: Window) -> OperatorDef:
    ends = [head + size for head, size in zip(window.head, window.image)]
    bounds = [
        integers.constant(f"cut_{i}", np.array(one, np.int64)) for i, one in enumerate((window.head, ends, [1, 2]))
    ]
    return OperatorDef.of("Slice", bounds, [], domain="onnx")


# Linear interpolation


def _interpolate(program: Program, resize: OperatorDef, quantize: OperatorDef) -> Rewrite:
    integers = Integers(program)
    y, x = integers.made_by(quantize), integers.one_scale(resize.input[0])
    if not x.has_parameters_of(y):
        raise Refusal("its result has another scale")
    picture = _picture(program, x.blob)
    moved = resized_axes(program, resize, picture) if resize.get_str("order", "NCHW") == "NCHW" else None
    if moved is None:
        raise Refusal("it resizes more than the height and the width")
    if not moved:
        return Rewrite(rename=merged(program, y.blob, x.blob))
    sizes = [moved[axis].size if axis in moved else picture.shape[axis] for axis in (HEIGHT, WIDTH)]
    for arguments, elsewhere in interpolations(list(moved.values()), picture.shape, x.dtype):
        if sum(elsewhere) * _STEPS <= FARTHEST:
            size = integers.constant(f"{y.blob}_size", np.array(sizes, np.int32))
            op = OperatorDef.of("QuantizedResizeBilinear", [size], [], domain=LITE, name=resize.name, **arguments)
            return integers.rewrite(*_around(integers, x, y.blob, op))
    raise Refusal("TensorFlow Lite interpolates in another way, or its fixed point is too coarse")


PASS = Pass(
    "enlarge_integers",
    (
        rule(*with_limits(operator(("ConvTranspose", "onnx.ConvTranspose"), "layer")), to=_spread),
        rule(quantize(operator(("UpsampleBilinear", "onnx.Resize"), "resize")), to=_interpolate),
    ),
)
