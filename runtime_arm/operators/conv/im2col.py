"""The columns of a convolution as blobs: Im2Col writes each window as a column, Col2Im adds the columns up again."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import Window, channels_last, require_at_least
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import Operator, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


def _pair(op: OperatorDef, name: str, default: int) -> Tuple[int, int]:
    both = op.get_int(name, default)
    return op.get_int(f"{name}_h", both), op.get_int(f"{name}_w", both)


def _window(op: OperatorDef, shape: Shape) -> Window:
    """The window of Caffe2's Im2Col and Col2Im over an image of this shape, in the operator's storage order."""
    if len(shape) != 4:
        raise ArgumentError(op, f"the image must have four dimensions, got {shape}")
    image = shape[1:3] if channels_last(op) else shape[2:]
    kernel, stride, dilation = _pair(op, "kernel", 0), _pair(op, "stride", 1), _pair(op, "dilation", 1)
    pad = op.get_int("pad", 0)
    require_at_least(op, "kernel, stride and dilation", kernel + stride + dilation, 1)
    require_at_least(op, "pad", (pad,), 0)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    require(
        op,
        image[0] >= reach[0] and image[1] >= reach[1],
        f"the kernel spans {reach} pixels, but the image has only {image}",
    )
    output = tuple((n + 2 * pad - r) // s + 1 for n, r, s in zip(image, reach, stride))
    return Window(tuple(image), kernel, stride, dilation, (pad, pad), (pad, pad), output)


def _columns_shape(op: OperatorDef, shape: Shape, window: Window) -> Shape:
    taps = window.kernel[0] * window.kernel[1]
    if channels_last(op):
        return (shape[0], *window.output, taps * shape[3])
    return (shape[0], shape[1] * taps, *window.output)


def _channels_first(op: OperatorDef, columns: Array, image: Array, window: Window) -> Tuple[Array, Array]:
    """Columns as (N, C, kernel..., output...) and the image as (N, C, height, width)."""
    if channels_last(op):
        n, channels = image.shape[0], image.shape[3]
        return (
            columns.reshape((n, *window.output, *window.kernel, channels)).transpose(0, 5, 3, 4, 1, 2),
            image.transpose(0, 3, 1, 2),
        )
    return columns.reshape((*image.shape[:2], *window.kernel, *window.output)), image


def _meetings(window: Window, columns: Array, image: Array) -> Iterator[Tuple[Array, Array]]:
    """For every tap, the elements of the columns and the pixels that they are copies of."""
    for tap in window.taps():
        elements = (slice(None), slice(None), *tap.kernel[1:])
        yield columns[elements][tap.out], image[tap.image]


@operator("Im2Col")
def im2col(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """(N, C, H, W) to (N, C * taps, output height, output width); NHWC: (N, H, W, C) to (N, output..., taps * C).

    Arguments: ``kernel``, ``stride``, ``dilation`` or each with ``_h`` and ``_w``, one ``pad`` for all sides,
    ``order``.
    """
    return [x.with_shape(_columns_shape(op, x.shape, _window(op, x.shape)))]


@im2col.reference
def im2col_reference(op: OperatorDef, x: Array) -> List[Any]:
    window = _window(op, x.shape)
    y = np.zeros(_columns_shape(op, x.shape, window), x.dtype)
    for elements, pixels in _meetings(window, *_channels_first(op, y, x, window)):
        elements[...] = pixels
    return [y]


@im2col.kernel("NUMPY")
def im2col_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    window = _window(call.op, x.shape)
    meetings = list(_meetings(window, *_channels_first(call.op, y, x, window)))

    def run() -> None:
        y.fill(0)
        for elements, pixels in meetings:
            np.copyto(elements, pixels)

    return run


@operator("Col2Im", inputs=2)
def col2im(op: OperatorDef, columns: TensorSpec, image: TensorSpec) -> List[TensorSpec]:
    """Each pixel is the sum of the column elements that Im2Col copies from it. Y has the shape of the second input."""
    shape = _columns_shape(op, image.shape, _window(op, image.shape))
    require(
        op,
        columns.size == TensorSpec(shape, columns.dtype).size,
        f"the columns must have the shape {shape}",
        columns,
        image,
    )
    return [columns.with_shape(image.shape)]


@operator("Col2Im", domain="onnx", inputs=3)
def onnx_col2im(op: OperatorDef, columns: TensorSpec, image: TensorSpec, block: TensorSpec) -> List[TensorSpec]:
    """(N, C * taps, positions) to (N, C, image...): each pixel is the sum of the column elements that are copies of it.

    The second input holds the image's shape, the third the kernel's. ``strides``, ``dilations`` (1), ``pads`` (0, heads
    then tails).
    """
    window = _onnx_window(op, integers_of(op, image, "image_shape"), integers_of(op, block, "block_shape"))
    taps, positions = int(np.prod(window.kernel)), int(np.prod(window.output))
    require(
        op,
        columns.ndim == 3 and columns.shape[1] % taps == 0 and columns.shape[2] == positions,
        f"the columns must be (N, C * {taps}, {positions})",
        columns,
    )
    return [columns.with_shape((columns.shape[0], columns.shape[1] // taps, *window.image))]


def _onnx_window(op: OperatorDef, image: Sequence[int], kernel: Sequence[int]) -> Window:
    ones = (1,) * len(image)
    strides, dilations = op.get_ints("strides", ones), op.get_ints("dilations", ones)
    pads = op.get_ints("pads", (0,) * (2 * len(image)))
    if not len(kernel) == len(strides) == len(dilations) == len(pads) // 2 == len(image):
        raise ArgumentError(
            op,
            f"kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads} do not fit the image {image}",
        )
    require_at_least(op, "kernel, strides and dilations", [*kernel, *strides, *dilations], 1)
    heads, tails = pads[: len(image)], pads[len(image) :]
    output = [
        (n + head + tail - d * (k - 1) - 1) // s + 1
        for n, head, tail, k, s, d in zip(image, heads, tails, kernel, strides, dilations)
    ]
    require_at_least(op, "image and output size", [*image, *output], 1)
    return Window(tuple(image), tuple(kernel), strides, dilations, heads, tails, tuple(output))


def _add_kernels(schema: Operator) -> None:
    def views(op: OperatorDef, columns: Array, image: Array, kernel: Any) -> Tuple[Window, Array, Array]:
        if not op.domain:
            window = _window(op, image.shape)
            return (window, *_channels_first(op, columns, image, window))
        window = _onnx_window(op, image.shape[2:], kernel)
        return window, columns.reshape((*image.shape[:2], *window.kernel, *window.output)), image

    @schema.reference
    def reference(op: OperatorDef, columns: Array, *shapes: Array) -> List[Any]:
        spec = schema.shape(op, TensorSpec.known(columns), *map(TensorSpec.known, shapes))[0]
        total = np.zeros(spec.shape, np.float64)
        for elements, pixels in _meetings(*views(op, columns, total, shapes[-1].tolist())):
            pixels += elements
        return [total.astype(columns.dtype)]

    @schema.kernel("NUMPY")
    def numpy(call: Call) -> Run:
        y, spec = call.outputs[0], call.in_specs[-1]
        kernel = spec.value.tolist() if spec is not None and spec.value is not None else ()
        meetings = list(_meetings(*views(call.op, call.inputs[0], y, kernel)))

        def run() -> None:
            y.fill(0)
            for elements, pixels in meetings:
                np.add(pixels, elements, out=pixels)

        return run


_add_kernels(col2im)
_add_kernels(onnx_col2im)
