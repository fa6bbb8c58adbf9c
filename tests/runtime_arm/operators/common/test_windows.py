"""Windows: the pixels that taps read, the forms of the arguments, output sizes."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import Window, caffe2_window, onnx_window

small = st.integers(1, 6)


def line(image: int, kernel: int, stride: int, dilation: int, head: int, output: int) -> Window:
    return Window((image,), (kernel,), (stride,), (dilation,), (head,), (0,), (output,))


@given(small, small, small, small, st.integers(-3, 6), small, st.data())
def test_a_tap_reads_the_pixels_of_the_definition(
    image: int, kernel: int, stride: int, dilation: int, head: int, output: int, data: Any
) -> None:
    window = line(image, kernel, stride, dilation, head, output)
    begin = data.draw(st.integers(0, output - 1))
    end = data.draw(st.integers(begin + 1, output))
    for tap in range(kernel):
        positions = [(o - begin, o * stride + tap * dilation - head) for o in range(begin, end)]
        met = [(o, pixel) for o, pixel in positions if 0 <= pixel < image]
        overlap = window.overlap(0, tap, begin, end)
        if overlap is None:
            assert not met
        else:
            assert list(range(output)[overlap.out]) == [o for o, _ in met]
            assert list(range(image)[overlap.image]) == [pixel for _, pixel in met]


@given(small, small, small, small, st.integers(0, 6), small)
def test_counts_are_the_pixels_that_the_taps_read(
    image: int, kernel: int, stride: int, dilation: int, head: int, output: int
) -> None:
    window = line(image, kernel, stride, dilation, head, output)
    counts = np.zeros(output, int)
    for tap in window.taps():
        counts[tap.out] += 1
    np.testing.assert_array_equal(window.counts(), counts)


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": 3, "stride": 2, "pad": 1},
        {"kernels": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_h": 3, "kernel_w": 3, "stride_h": 2, "stride_w": 2, "pad_t": 1, "pad_l": 1, "pad_b": 1, "pad_r": 1},
        {"kernel": 3, "kernels": [3], "stride": 2, "pad": 1},
    ],
)
def test_the_forms_of_caffe2_arguments_mean_the_same(arguments: Any) -> None:
    window = caffe2_window(OperatorDef.of("Conv", ["X", "W"], ["Y"], **arguments), (9, 10))
    assert window == Window((9, 10), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (5, 5))


def test_pads_are_heads_then_tails_and_an_incomplete_set_is_ignored() -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, pads=[1, 2, 3, 4])
    window = caffe2_window(op, (9, 10))
    assert (window.head, window.tail, window.output) == ((1, 2), (3, 4), (11, 14))
    assert caffe2_window(op.with_args(pads=None, pad_t=1, pad_l=1), (9, 10)).output == (7, 8)


@pytest.mark.parametrize(
    ("legacy_pad", "kernel", "stride", "pad", "image", "output", "head"),
    [
        (1, 3, 2, None, 8, 3, 0),
        (2, 3, 2, None, 8, 4, 0),
        (2, 3, 1, None, 8, 8, 1),
        (2, 1, 4, None, 8, 2, -1),
        (3, 3, 2, 0, 8, 4, 0),
        (3, 3, 2, 0, 7, 3, 0),
        (3, 3, 2, 1, 8, 5, 1),
        (3, 2, 2, 1, 7, 4, 1),
    ],
)
def test_legacy_pad(legacy_pad: int, kernel: int, stride: int, pad: Any, image: int, output: int, head: int) -> None:
    op = OperatorDef.of("MaxPool", ["X"], ["Y"], kernels=[kernel], strides=[stride], legacy_pad=legacy_pad)
    window = caffe2_window(op if pad is None else op.with_args(pads=[pad, pad]), (image,))
    assert (window.output, window.head) == ((output,), (head,))


@pytest.mark.parametrize(
    ("attributes", "image", "output", "head"),
    [
        ({"kernel_shape": [3], "strides": [2]}, 8, 3, 0),
        ({"kernel_shape": [3], "strides": [2], "ceil_mode": 1}, 8, 4, 0),
        ({"kernel_shape": [1], "strides": [2], "ceil_mode": 1, "pads": [0, 1]}, 8, 4, 0),
        ({"kernel_shape": [4], "auto_pad": "SAME_UPPER"}, 5, 5, 1),
        ({"kernel_shape": [4], "auto_pad": "SAME_LOWER"}, 5, 5, 2),
        ({"kernel_shape": [2], "auto_pad": "VALID", "pads": [1, 1]}, 5, 4, 0),
    ],
)
def test_onnx_sizes(attributes: Any, image: int, output: int, head: int) -> None:
    window = onnx_window(OperatorDef.of("MaxPool", ["X"], ["Y"], domain="onnx", **attributes), (image,))
    assert (window.output, window.head) == ((output,), (head,))


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([7], [1, 7, 1]),
        ([7, 8], [1, 7, 8]),
        ([1, 8], [1, 8, 1]),
        ([1, 1, 8, 9], [1, 8, 9]),
        ([1], [1, 1, 1]),
    ],
)
def test_three_dimensions_are_enough(sizes: List[int], wanted: List[int]) -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernels=[min(n, 3) for n in sizes])
    window = caffe2_window(op, sizes).in_three()
    assert window is not None
    assert list(window.image) == wanted


def test_four_effective_dimensions_are_too_many() -> None:
    assert caffe2_window(OperatorDef.of("Conv", ["X", "W"], ["Y"], kernels=[2] * 4), (3, 3, 3, 3)).in_three() is None


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({}, "kernel_shape is required"),
        ({"kernel_shape": [2, 2]}, "kernel_shape must have 1 values for 1 dimensions"),
        ({"kernel_shape": [2], "auto_pad": "SAME"}, "auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER"),
        ({"kernel_shape": [2], "strides": [0]}, "strides must be at least 1"),
        ({"kernel_shape": [2], "pads": [-1, 0]}, "pad must be at least 0"),
    ],
)
def test_refuses(attributes: Any, rule: str) -> None:
    with pytest.raises(ArgumentError, match=rule):
        onnx_window(OperatorDef.of("MaxPool", ["X"], ["Y"], domain="onnx", **attributes), (5,))
