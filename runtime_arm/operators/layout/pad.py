"""Adding and removing elements at the ends of dimensions. Negative pads remove; what remains is then padded."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import along, copy_all
from runtime_arm.operators.common.windows import caffe2_list, channels_last
from runtime_arm.registry.schema import Call, Operator, Run, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


class Padding(NamedTuple):
    """Elements to add (or, negative, to remove) in front of and behind each dimension, and what to fill with."""

    heads: Sequence[int]
    tails: Sequence[int]
    mode: str

    def apply(self, shape: Shape) -> List[int]:
        """The padded shape."""
        return [n + head + tail for n, head, tail in zip(shape, self.heads, self.tails)]

    def kept(self, shape: Shape) -> Tuple[slice, ...]:
        """The elements that negative pads leave."""
        return tuple(slice(max(-head, 0), n + min(tail, 0)) for n, head, tail in zip(shape, self.heads, self.tails))


def source_index(mode: str, i: int, length: int) -> int:
    """The element of 0..length-1 that stands at position ``i`` before or behind them: reflect, edge or wrap."""
    if mode == "edge":
        return min(max(i, 0), length - 1)
    if mode == "wrap":
        return i % length
    period = 2 * (length - 1)
    forth = i % period if period else 0
    return min(forth, period - forth)


def _padded(op: OperatorDef, x: TensorSpec, padding: Padding) -> TensorSpec:
    rest = [n + min(head, 0) + min(tail, 0) for n, head, tail in zip(x.shape, padding.heads, padding.tails)]
    require(
        op, min(rest, default=0) >= 0, f"pads {list(padding.heads)}, {list(padding.tails)} remove more than there is", x
    )
    fills = [n > 0 or max(head, tail) <= 0 for n, head, tail in zip(rest, padding.heads, padding.tails)]
    require(op, padding.mode == "constant" or all(fills), f"nothing is there to pad by {padding.mode}", x)
    return x.with_shape(padding.apply(x.shape))


@operator("PadImage")
def pad_image(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Pads height and width by ``pad``, ``pads`` or ``pad_t``, ``pad_l``, ``pad_b``, ``pad_r``.

    ``mode`` constant (``value``, 0), reflect or edge; ``order`` NCHW or NHWC. Reflection must not reach beyond the far
    edge.
    """
    require(op, x.ndim == 4, "the input must have four dimensions", x)
    padding = _image_padding(op)
    if padding.mode == "reflect":
        reach = [max(head, tail) for head, tail in zip(padding.heads, padding.tails)]
        inside = all(
            most < n + min(head, 0) + min(tail, 0) or most <= 0
            for most, n, head, tail in zip(reach, x.shape, padding.heads, padding.tails)
        )
        require(op, inside, f"pads {list(padding.heads)}, {list(padding.tails)} reflect beyond the far edge", x)
    return [_padded(op, x, padding)]


def _image_padding(op: OperatorDef) -> Padding:
    pads = caffe2_list(op, "pad", "tlbr") or [0, 0, 0, 0]
    if len(pads) != 4:
        raise ArgumentError(op, f"pads must be 4 numbers, got {pads}")
    if op.get_int("legacy_pad", 0) or set(caffe2_list(op, "stride", "hw") + caffe2_list(op, "dilation", "hw")) - {1}:
        raise ArgumentError(op, "only pads are taken: no legacy_pad, stride or dilation")
    mode = op.get_str("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise ArgumentError(op, f"mode must be constant, reflect or edge, got {mode!r}")
    head, tail = pads[:2], pads[2:]
    if channels_last(op):
        return Padding((0, *head, 0), (0, *tail, 0), mode)
    return Padding((0, 0, *head), (0, 0, *tail), mode)


@operator("Pad", domain="onnx", inputs=(2, 4))
def pad(
    op: OperatorDef,
    x: TensorSpec,
    pads: TensorSpec,
    value: Optional[TensorSpec] = None,
    axes: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Inputs: data, pads (heads, then tails), constant (0), axes (all). ``mode`` constant, reflect, edge or wrap."""
    require(
        op,
        value is None or (value.size == 1 and value.dtype == x.dtype),
        "the constant must be one number of X's dtype",
        x,
        value,
    )
    return [_padded(op, x, _onnx_padding(op, x, pads, axes))]


def _onnx_padding(op: OperatorDef, x: TensorSpec, pads: TensorSpec, axes: Optional[TensorSpec] = None) -> Padding:
    mode = op.get_str("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise ArgumentError(op, f"mode must be constant, reflect, edge or wrap, got {mode!r}")
    numbers = integers_of(op, pads, "pads")
    named = range(x.ndim) if axes is None else integers_of(op, axes, "axes")
    given = [axis_of(op, axis, x.ndim, "axes") for axis in named]
    require(op, len(numbers) == 2 * len(given), f"pads {numbers} must be two for each of the axes {list(given)}", x)
    heads, tails = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(given):
        heads[axis], tails[axis] = numbers[i], numbers[i + len(given)]
    return Padding(heads, tails, mode)


@operator("CenterCropPad", domain="onnx", inputs=2)
def center_crop_pad(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> List[TensorSpec]:
    """Y has the size that the second input gives for ``axes`` (all): X's middle, or X in the middle of zeros."""
    return [_padded(op, x, _centering(op, x, shape))]


def _centering(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> Padding:
    sizes = integers_of(op, shape, "shape")
    axes = [axis_of(op, axis, x.ndim, "axes") for axis in op.get_ints("axes")] if op.has("axes") else range(x.ndim)
    require(
        op, len(sizes) == len(axes) and min(sizes, default=0) >= 0, f"shape {sizes} must have a size for each axis", x
    )
    heads, tails = [0] * x.ndim, [0] * x.ndim
    for axis, wanted in zip(axes, sizes):
        extra = wanted - x.shape[axis]
        heads[axis] = extra // 2 if extra > 0 else -(-extra // 2)
        tails[axis] = extra - heads[axis]
    return Padding(heads, tails, "constant")


def _padding_of(op: OperatorDef, x: TensorSpec, extra: Sequence[Optional[TensorSpec]]) -> Padding:
    if op.type == "PadImage":
        return _image_padding(op)
    if op.type == "CenterCropPad":
        assert extra[0] is not None
        return _centering(op, x, extra[0])
    assert extra[0] is not None
    return _onnx_padding(op, x, extra[0], extra[2] if len(extra) > 2 else None)


def _constant(op: OperatorDef, x: Array, extra: Sequence[Optional[Array]]) -> Array:
    if len(extra) > 1 and extra[1] is not None:
        return extra[1].reshape(())
    return np.array(op.get_float("value", 0.0) if op.type == "PadImage" else 0).astype(x.dtype)


def _add_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, *extra: Optional[Array]) -> List[Any]:
        known = [None if array is None else TensorSpec.known(array) for array in extra]
        padding = _padding_of(op, TensorSpec.known(x), known)
        y = x[padding.kept(x.shape)].copy()
        for axis, (head, tail) in enumerate(zip(padding.heads, padding.tails)):
            length = y.shape[axis]
            positions = range(-max(head, 0), length + max(tail, 0))
            if padding.mode != "constant":
                y = np.take(y, [source_index(padding.mode, i, length) for i in positions], axis)
            else:
                ends = [(0, 0)] * axis + [(max(head, 0), max(tail, 0))] + [(0, 0)] * (y.ndim - axis - 1)
                y = np.pad(y, ends, mode="constant", constant_values=_constant(op, x, extra))
        return [y]

    @schema.kernel("NUMPY")
    def numpy(call: Call) -> Run:
        x, y, spec = call.inputs[0], call.outputs[0], call.in_specs[0]
        assert spec is not None
        padding = _padding_of(call.op, spec, call.in_specs[1:])
        kept = x[padding.kept(x.shape)]
        starts = [max(head, 0) for head in padding.heads]
        inner = tuple(slice(start, start + n) for start, n in zip(starts, kept.shape))
        pairs: List[Tuple[Array, Any]] = [(y[inner], kept)]
        for axis, (start, length) in enumerate(zip(starts, kept.shape)):
            # lines along this axis, at full length in the dimensions that are done already
            lines = y[(slice(None),) * (axis + 1) + inner[axis + 1 :]]
            if padding.mode == "constant":
                value = _constant(call.op, x, call.inputs[1:])
                pairs += [
                    (lines[along(axis, 0, start)], value),
                    (lines[along(axis, start + length, y.shape[axis])], value),
                ]
                continue
            for i in [*range(start), *range(start + length, y.shape[axis])]:
                source = start + source_index(padding.mode, i - start, length)
                pairs.append((lines[along(axis, i, i + 1)], lines[along(axis, source, source + 1)]))
        return copy_all(pairs)


for _schema in (pad_image, pad, center_crop_pad):
    _add_kernels(_schema)
