"""Padding: Caffe2's PadImage, ONNX's Pad and CenterCropPad. Negative pads remove elements."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import along, copy_all
from runtime_arm.operators.common.windows import caffe2_list, channels_last
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


class Padding(NamedTuple):
    """Elements to add (or, if negative, to remove) before and after each dimension, and the value to fill with.

    mode: constant, reflect, edge or wrap. whole: pads repeat elements of the whole X (Caffe2), even removed ones;
    otherwise only elements that are left (ONNX).
    """

    heads: Sequence[int]
    tails: Sequence[int]
    mode: str
    whole: bool = False

    def apply(self, shape: Shape) -> List[int]:
        """The padded shape."""
        return [n + head + tail for n, head, tail in zip(shape, self.heads, self.tails)]

    def sources(self, shape: Shape, axis: int) -> Sequence[int]:
        """For each position of Y along ``axis``, the position in X (of this shape) to copy; -1 for the constant."""
        n, head, tail = shape[axis], self.heads[axis], self.tails[axis]
        positions = range(-head, n + tail)
        if not head and not tail:
            return positions
        if self.mode == "constant":
            return [i if 0 <= i < n else -1 for i in positions]
        if self.whole:
            return [_image_source(self.mode, i, n) for i in positions]
        first, left = max(-head, 0), n + min(head, 0) + min(tail, 0)
        return [first + _source(self.mode, i - first, left) for i in positions]

    def kept(self, shape: Shape) -> Tuple[Tuple[slice, ...], Tuple[slice, ...]]:
        """Where Y has X's elements, and which of X's elements these are."""
        starts = [min(max(head, 0), n) for head, n in zip(self.heads, self.apply(shape))]
        stops = [min(max(head + n, 0), size) for head, n, size in zip(self.heads, shape, self.apply(shape))]
        inner = [slice(start, max(start, stop)) for start, stop in zip(starts, stops)]
        return tuple(inner), tuple(slice(one.start - head, one.stop - head) for one, head in zip(inner, self.heads))


def _source(mode: str, i: int, length: int) -> int:
    """The element of 0..length-1 that is repeated at position ``i`` outside them: reflect, edge or wrap."""
    if mode == "edge":
        return min(max(i, 0), length - 1)
    if mode == "wrap":
        return i % length
    period = 2 * (length - 1)
    forth = i % period if period else 0
    return min(forth, period - forth)


def _image_source(mode: str, i: int, length: int) -> int:
    """The same in Caffe2, which reflects once at the front, then once at the back."""
    return min(max(i, 0), length - 1) if mode == "edge" else min(abs(i), 2 * (length - 1) - abs(i))


@operator("PadImage")
def pad_image(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Pads height and width by ``pad``, ``pads`` or ``pad_t``, ``pad_l``, ``pad_b``, ``pad_r``.

    ``mode`` constant (``value``, 0), reflect or edge; ``order`` NCHW or NHWC. By reflection, position i of an image of
    n pixels is  min(|i|, 2 (n - 1) - |i|).  So Y may start at -2 (n - 1) at the earliest and end at 2 (n - 1) at the
    latest; beyond that Caffe2 reads outside the image. Source: Caffe2's pad_op.cc.
    """
    require(op, x.ndim == 4, "the input must have four dimensions", x)
    padding = image_padding(op)
    pads = f"pads {list(padding.heads)}, {list(padding.tails)}"
    sizes = padding.apply(x.shape)
    axes = [axis for axis in range(4) if padding.heads[axis] or padding.tails[axis]]
    require(op, all(sizes[axis] > 0 for axis in axes), f"{pads} remove all elements", x)
    filled = padding.mode == "constant" or all(x.shape[axis] for axis in axes)
    require(op, filled, f"there is nothing to pad with by {padding.mode}", x)
    if padding.mode == "reflect":
        for axis in axes:
            n, head, tail = x.shape[axis], padding.heads[axis], padding.tails[axis]
            far = max(head, n - 1 + tail)
            require(op, far <= 2 * (n - 1), f"{pads} reflect too far: at most {2 * n - 2} before and {n - 1} after", x)
    return [x.with_shape(sizes)]


def image_padding(op: OperatorDef) -> Padding:
    pads = caffe2_list(op, "pad", "tlbr") or [0, 0, 0, 0]
    if len(pads) != 4:
        raise ArgumentError(op, f"pads must be 4 numbers, got {pads}")
    if op.get_int("legacy_pad", 0) or set(caffe2_list(op, "stride", "hw") + caffe2_list(op, "dilation", "hw")) - {1}:
        raise ArgumentError(op, "PadImage takes no legacy_pad, stride or dilation")
    mode = op.get_str("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise ArgumentError(op, f"mode must be constant, reflect or edge, got {mode!r}")
    head, tail = pads[:2], pads[2:]
    if channels_last(op):
        return Padding((0, *head, 0), (0, *tail, 0), mode, whole=True)
    return Padding((0, 0, *head), (0, 0, *tail), mode, whole=True)


@operator("Pad", domain="onnx", inputs=(2, 4))
def pad(
    op: OperatorDef,
    x: TensorSpec,
    pads: TensorSpec,
    value: Optional[TensorSpec] = None,
    axes: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """Adds or removes elements at the ends of dimensions. ``mode`` constant, reflect, edge or wrap.

    Inputs: data, pads (heads, then tails), the constant (0), axes (all).
    """
    require(
        op,
        value is None or (value.size == 1 and value.dtype == x.dtype),
        "the constant must be one number of X's dtype",
        x,
        value,
    )
    return [_padded(op, x, _onnx_padding(op, x, pads, axes))]


def _padded(op: OperatorDef, x: TensorSpec, padding: Padding) -> TensorSpec:
    left = [n + min(head, 0) + min(tail, 0) for n, head, tail in zip(x.shape, padding.heads, padding.tails)]
    pads = f"pads {list(padding.heads)}, {list(padding.tails)}"
    require(op, min(left, default=0) >= 0, f"{pads} remove more elements than there are", x)
    filled = [n > 0 or max(head, tail) <= 0 for n, head, tail in zip(left, padding.heads, padding.tails)]
    require(op, padding.mode == "constant" or all(filled), f"there is nothing to pad with by {padding.mode}", x)
    return x.with_shape(padding.apply(x.shape))


def _onnx_padding(op: OperatorDef, x: TensorSpec, pads: TensorSpec, axes: Optional[TensorSpec] = None) -> Padding:
    mode = op.get_str("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise ArgumentError(op, f"mode must be constant, reflect, edge or wrap, got {mode!r}")
    numbers = integers_of(op, pads, "pads")
    named = range(x.ndim) if axes is None else integers_of(op, axes, "axes")
    given = [axis_of(op, axis, x.ndim, "axes") for axis in named]
    require(
        op,
        len(numbers) == 2 * len(given),
        f"pads must be two for each of the axes {list(given)}, got {numbers}",
        x,
    )
    heads, tails = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(given):
        heads[axis], tails[axis] = numbers[i], numbers[i + len(given)]
    return Padding(heads, tails, mode)


@operator("CenterCropPad", domain="onnx", inputs=2)
def center_crop_pad(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> List[TensorSpec]:
    """Y has the size in the second input along ``axes`` (all): the middle of X, or X in the middle of zeros."""
    return [_padded(op, x, _centering(op, x, shape))]


def _centering(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> Padding:
    sizes = integers_of(op, shape, "shape")
    axes = [axis_of(op, axis, x.ndim, "axes") for axis in op.get_ints("axes")] if op.has("axes") else range(x.ndim)
    require(
        op,
        len(sizes) == len(axes) and min(sizes, default=0) >= 0,
        f"shape must be one size per axis, got {sizes}",
        x,
    )
    heads, tails = [0] * x.ndim, [0] * x.ndim
    for axis, wanted in zip(axes, sizes):
        extra = wanted - x.shape[axis]
        heads[axis] = extra // 2 if extra > 0 else -(-extra // 2)
        tails[axis] = extra - heads[axis]
    return Padding(heads, tails, "constant")


def padding_of(op: OperatorDef, x: TensorSpec, extra: Sequence[Optional[TensorSpec]]) -> Padding:
    """What the operator adds to X and removes. extra: the inputs after X."""
    if op.type == "PadImage":
        return image_padding(op)
    if op.type == "CenterCropPad":
        assert extra[0] is not None
        return _centering(op, x, extra[0])
    assert extra[0] is not None
    return _onnx_padding(op, x, extra[0], extra[2] if len(extra) > 2 else None)


def _constant(op: OperatorDef, x: Array, extra: Sequence[Optional[Array]]) -> Array:
    if len(extra) > 1 and extra[1] is not None:
        return extra[1].reshape(())
    return np.array(op.get_float("value", 0.0) if op.type == "PadImage" else 0).astype(x.dtype)


def _removed(op: OperatorDef, inputs: Specs, outputs: Any) -> Optional[str]:
    """A kernel's ``supports``: refuses pads that repeat removed elements, which Y does not have."""
    x = inputs[0]
    assert x is not None
    padding = padding_of(op, x, inputs[1:])
    if padding.mode != "constant":
        for axis, kept in enumerate(padding.kept(x.shape)[1]):
            if any(not kept.start <= i < kept.stop for i in padding.sources(x.shape, axis)):
                return "pads repeat elements that negative pads remove"
    return None


def _add_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, *extra: Optional[Array]) -> List[Any]:
        known = [None if array is None else TensorSpec.known(array) for array in extra]
        padding = padding_of(op, TensorSpec.known(x), known)
        sources = [np.array(padding.sources(x.shape, axis), np.intp) for axis in range(x.ndim)]
        y = np.full([len(one) for one in sources], _constant(op, x, extra), x.dtype)
        y[np.ix_(*[one >= 0 for one in sources])] = x[np.ix_(*[one[one >= 0] for one in sources])]
        return [y]

    @schema.kernel("NUMPY", supports=_removed)
    def numpy(call: Call) -> Run:
        x, y, spec = call.inputs[0], call.outputs[0], call.in_specs[0]
        assert spec is not None
        padding = padding_of(call.op, spec, call.in_specs[1:])
        inner, kept = padding.kept(x.shape)
        pairs: List[Tuple[Array, Any]] = [(y[inner], x[kept])]
        for axis, head in enumerate(padding.heads):
            # lines along this axis, at full length in the dimensions that are done already
            lines = y[(slice(None),) * (axis + 1) + inner[axis + 1 :]]
            start, stop, size = inner[axis].start, inner[axis].stop, y.shape[axis]
            if padding.mode == "constant":
                value = _constant(call.op, x, call.inputs[1:])
                pairs += [(lines[along(axis, 0, start)], value), (lines[along(axis, stop, size)], value)]
                continue
            sources = padding.sources(x.shape, axis)
            for i in [*range(start), *range(stop, size)]:
                source = sources[i] + head
                pairs.append((lines[along(axis, i, i + 1)], lines[along(axis, source, source + 1)]))
        return copy_all(pairs)


for _schema in (pad_image, pad, center_crop_pad):
    _add_kernels(_schema)
