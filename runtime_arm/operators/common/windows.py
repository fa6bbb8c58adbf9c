"""How a kernel slides over an image: arguments of convolutions and pools, output sizes, the pixels each tap reads.

``caffe2_window`` reads Caffe2's arguments, ``onnx_window`` ONNX's attributes. Both return a Window, which has any
number of dimensions; everything after that works on Windows.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.records import NamedTuple

Ints = Tuple[int, ...]
LARGEST_KERNEL = 1 << 16  # per dimension, unless the image is larger
Index = Tuple[Any, ...]

# values of Caffe2's legacy_pad
NOTSET, VALID, SAME, CAFFE_POOLING = range(4)

# the names under which Caffe2 has its pools
MAX_POOLS = ("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
AVERAGE_POOLS = ("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")


class Overlap(NamedTuple):
    """The output positions whose tap falls inside the image, and the pixels it falls on."""

    out: slice
    image: slice


class Tap(NamedTuple):
    """One element of a kernel, as indices into arrays that end in the dimensions of kernel, output or image."""

    kernel: Index
    out: Index
    image: Index


class Window(NamedTuple):
    """A kernel over an image. Every tuple has one entry per spatial dimension.

    Output position o and tap k read the pixel  o * stride + k * dilation - head;  outside the image is padding.
    ``tail`` is the padding behind the image that counts as padding. Windows may reach beyond it when sizes are rounded
    up.
    """

    image: Ints
    kernel: Ints
    stride: Ints
    dilation: Ints
    head: Ints
    tail: Ints
    output: Ints

    @property
    def ndim(self) -> int:
        return len(self.image)

    def in_three(self) -> Optional[Window]:
        """The same window with three dimensions (slices, rows, columns); None if it needs more.

        Dimensions of one pixel that have no effect are dropped. If only one dimension is left, it becomes the rows.
        """
        axes = list(zip(*self))
        axes = [axis for axis in axes if axis != _IDLE]
        if len(axes) > 3:
            return None
        axes = [_IDLE, *axes, _IDLE] if len(axes) == 1 else [_IDLE] * (3 - len(axes)) + axes
        return Window(*zip(*axes))

    def overlap(self, axis: int, tap: int, begin: int = 0, end: Optional[int] = None) -> Optional[Overlap]:
        """Where one tap of a dimension falls inside the image, for the outputs begin..end-1; None if nowhere.

        ``out`` counts from ``begin``.
        """
        stride, offset = self.stride[axis], tap * self.dilation[axis] - self.head[axis]
        first = max(begin, -(offset // stride))
        last = min(self.output[axis] if end is None else end, (self.image[axis] - 1 - offset) // stride + 1)
        if first >= last:
            return None
        source = first * stride + offset
        stop = source + (last - first - 1) * stride + 1
        return Overlap(slice(first - begin, last - begin), slice(source, stop, stride))

    def counts(self, padded: bool = False, signed: bool = False) -> Array:
        """The number of pixels under the kernel at every output, int64 (*output). ``padded`` counts padding, too.

        ``signed``: windows that begin after the end of the image have a negative number in that dimension, as in Caffe.
        """
        total = np.ones((), np.int64)
        for image, kernel, stride, dilation, head, tail, output in zip(*self):
            pixels = np.arange(output)[:, None] * stride + np.arange(kernel) * dilation - head
            low, high = (-head, image + tail) if padded else (0, image)
            under = ((pixels >= low) & (pixels < high)).sum(1)
            under += np.minimum(high - pixels[:, 0], 0) if signed else 0
            total = np.multiply.outer(total, under)
        return total

    def taps(self) -> Iterator[Tap]:
        """Every tap that falls inside the image for some output."""
        axes = [[(k, self.overlap(axis, k)) for k in range(size)] for axis, size in enumerate(self.kernel)]
        met = [[(k, overlap) for k, overlap in axis if overlap is not None] for axis in axes]
        for tap in product(*met):
            yield Tap(
                (..., *[k for k, _ in tap]),
                (..., *[overlap.out for _, overlap in tap]),
                (..., *[overlap.image for _, overlap in tap]),
            )


_IDLE = (1, 1, 1, 1, 0, 0, 1)


def image_shape(batch: int, channels: int, image: Sequence[int], last: bool) -> Tuple[int, ...]:
    """The shape of a batch of images: (N, C, *image), or with channels ``last`` (N, *image, C)."""
    return (batch, *image, channels) if last else (batch, channels, *image)


def require_at_least(op: OperatorDef, what: str, values: Sequence[int], least: int) -> None:
    """ArgumentError unless all values are at least ``least``."""
    if any(value < least for value in values):
        raise ArgumentError(op, f"{what} must be at least {least}, got {list(values)}")


def channels_last(op: OperatorDef) -> bool:
    """Whether argument ``order`` of a Caffe2 operator is NHWC, not NCHW (the default). Lower case is allowed, too."""
    order = op.get_str("order", "NCHW")
    if order not in ("NCHW", "NHWC", "nchw", "nhwc"):
        raise ArgumentError(op, f"order must be NCHW or NHWC, got {order!r}")
    return order in ("NHWC", "nhwc")


def caffe2_list(op: OperatorDef, name: str, suffixes: str) -> List[int]:
    """A list argument of Caffe2's: ``kernels``, ``kernel``, or ``kernel_h`` with ``kernel_w``. Empty if absent.

    A scalar fills up a list that is too short. Suffixed arguments count only if all of them are given.
    """
    values = list(op.get_ints(name + "s"))
    if op.has(name):
        return (values + [op.get_int(name)] * len(suffixes))[: len(suffixes)]
    if all(op.has(f"{name}_{suffix}") for suffix in suffixes):
        values += [op.get_int(f"{name}_{suffix}") for suffix in suffixes]
    return values


def caffe2_window(op: OperatorDef, image: Sequence[int], pool: bool = False) -> Window:
    """The window of a Caffe2 convolution or pool (conv_pool_op_base.h).

    kernel, stride, dilation (1), pad (0: heads, then tails), legacy_pad (0 none, 1 VALID, 2 SAME, 3 Caffe's pooling),
    global_pooling. Output sizes are rounded down, or up with legacy_pad 3. A pool of one dimension takes arguments of
    two, of which it reads the first.
    """
    legacy = op.get_int("legacy_pad", NOTSET)
    if legacy not in (NOTSET, VALID, SAME, CAFFE_POOLING):
        raise ArgumentError(op, f"legacy_pad must be 0, 1, 2 or 3, got {legacy}")
    pads = caffe2_list(op, "pad", "tlbr")
    if pads and legacy in (VALID, SAME):
        raise ArgumentError(op, f"legacy_pad {legacy} computes the padding: pads must not be given")
    kernel = caffe2_list(op, "kernel", "hw")
    whole = op.get_bool("global_pooling")
    if not kernel and not whole:
        raise ArgumentError(op, "the kernel size is missing: give kernel, kernel_h and kernel_w, or kernels")
    ndim = len(kernel) or len(image)
    stride = caffe2_list(op, "stride", "hw") or [1] * ndim
    dilation = caffe2_list(op, "dilation", "hw") or [1] * ndim
    pads = pads or [0] * (2 * ndim)
    if pool and len(image) == 1 and not whole:
        if not 2 * len(kernel) == 2 * len(stride) == 2 * len(dilation) == len(pads):
            raise ArgumentError(op, "kernel, stride, dilation and pad must be given for the same number of dimensions")
        kernel, stride, dilation, pads, ndim = kernel[:1], stride[:1], dilation[:1], pads[:: len(pads) // 2], 1
    if whole:
        if any(pads) or set(stride) | set(dilation) != {1}:
            raise ArgumentError(op, "global_pooling takes neither pads nor strides nor dilations")
        return global_window(image)
    _check_lists(op, image, kernel=kernel, stride=stride, dilation=dilation, pad=pads)
    _check_kernel(op, image, kernel)
    head, tail, output = list(pads[:ndim]), list(pads[ndim:]), []
    for axis in range(ndim):
        geometry = (image[axis], kernel[axis], stride[axis], dilation[axis])
        size, head[axis], tail[axis] = _caffe2_size(op, legacy, geometry, head[axis], tail[axis])
        output.append(size)
    return _checked(op, Window(*map(tuple, (image, kernel, stride, dilation, head, tail, output))))


def global_window(image: Sequence[int]) -> Window:
    """The window of a kernel that covers the whole image."""
    ones, zeros = (1,) * len(image), (0,) * len(image)
    return Window(tuple(image), tuple(image), ones, ones, zeros, zeros, ones)


def _check_lists(op: OperatorDef, image: Sequence[int], **lists: Sequence[int]) -> None:
    for name, values in lists.items():
        count = 2 * len(image) if name == "pad" else len(image)
        if len(values) != count:
            raise ArgumentError(op, f"{name} must have {count} values for {len(image)} dimensions, got {list(values)}")
        require_at_least(op, name, values, 0 if name == "pad" else 1)


def _caffe2_size(op: OperatorDef, legacy: int, geometry: Sequence[int], head: int, tail: int) -> Tuple[int, int, int]:
    """Output size, head and tail of one dimension. geometry: image, kernel, stride, dilation."""
    image, kernel, stride, dilation = geometry
    if legacy == NOTSET:
        return (image + head + tail - dilation * (kernel - 1) - 1) // stride + 1, head, tail
    if legacy == VALID:
        return (image - dilation * (kernel - 1) - 1) // stride + 1, 0, 0
    if dilation != 1:
        raise ArgumentError(op, f"legacy_pad {legacy} takes no dilation, got {dilation}")
    if legacy == SAME:
        size = -(-image // stride)
        needed = (size - 1) * stride + kernel - image
        head = int(needed / 2)  # rounded towards zero: negative if the stride is larger than the kernel
        return size, head, needed - head
    size = -(-(image + 2 * head - kernel) // stride) + 1
    if head > 0 and (size - 1) * stride >= image + head:
        size -= 1
    return size, head, (size - 1) * stride + kernel - head - image


def _check_kernel(op: OperatorDef, image: Sequence[int], kernel: Sequence[int]) -> None:
    """ShapeError if the kernel is far larger than the image.

    A pool has no weights that would bound its kernel, and plans take time and memory for every tap.
    """
    if any(size > max(n, LARGEST_KERNEL) for n, size in zip(image, kernel)):
        raise ShapeError(op, f"the kernel, {list(kernel)}, is too large for the image, {list(image)}")


def _checked(op: OperatorDef, window: Window) -> Window:
    if any(size < 1 for size in window.output):
        padded = [head + n + tail for head, n, tail in zip(window.head, window.image, window.tail)]
        reach = [d * (k - 1) + 1 for d, k in zip(window.dilation, window.kernel)]
        raise ShapeError(op, f"the kernel spans {reach} pixels, but the padded image has only {padded}")
    return window


def onnx_window(op: OperatorDef, image: Sequence[int], kernel: Optional[Sequence[int]] = None) -> Window:
    """The window of an ONNX convolution or pool.

    kernel_shape (default: ``kernel``, the shape of the weights), strides, dilations (1), pads (heads, then tails),
    auto_pad (NOTSET, VALID, SAME_UPPER, SAME_LOWER), ceil_mode.
    """
    ndim = len(image)
    shape = op.get_ints("kernel_shape", kernel or ())
    if kernel is not None and tuple(shape) != tuple(kernel):
        raise ArgumentError(op, f"kernel_shape is {list(shape)}, but the weights have {list(kernel)}")
    if not shape:
        raise ArgumentError(op, "kernel_shape is required")
    strides, dilations = op.get_ints("strides", (1,) * ndim), op.get_ints("dilations", (1,) * ndim)
    pads = op.get_ints("pads", (0,) * (2 * ndim))
    _check_lists(op, image, kernel_shape=shape, strides=strides, dilations=dilations, pad=pads)
    _check_kernel(op, image, shape)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, shape)]
    auto = onnx_auto_pad(op)
    if auto == "VALID":
        pads = (0,) * (2 * ndim)
    elif auto != "NOTSET":
        output = tuple(-(-n // s) for n, s in zip(image, strides))
        needed = [max((o - 1) * s + r - n, 0) for o, s, r, n in zip(output, strides, reach, image)]
        heads, tails = split_pads(needed, auto)
        return Window(tuple(image), shape, strides, dilations, heads, tails, output)
    heads, tails = pads[:ndim], pads[ndim:]
    room = [n + head + tail - r for n, head, tail, r in zip(image, heads, tails, reach)]
    sizes = [free // s + 1 for free, s in zip(room, strides)]
    if op.get_bool("ceil_mode") and auto == "NOTSET":
        sizes = [-(-free // s) + 1 for free, s in zip(room, strides)]
        # a window that would start behind the image is left out
        sizes = [o - ((o - 1) * s >= n + head) for o, s, n, head in zip(sizes, strides, image, heads)]
    return _checked(op, Window(tuple(image), shape, strides, dilations, heads, tails, tuple(sizes)))


def onnx_auto_pad(op: OperatorDef) -> str:
    """The attribute auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER."""
    auto = op.get_str("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise ArgumentError(op, f"auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {auto!r}")
    return auto


def split_pads(totals: Sequence[int], auto: str) -> Tuple[Ints, Ints]:
    """Splits total paddings into heads and tails. If one is odd, the tail is larger; with SAME_LOWER, the head."""
    smaller, larger = tuple(n // 2 for n in totals), tuple(n - n // 2 for n in totals)
    return (larger, smaller) if auto == "SAME_LOWER" else (smaller, larger)
