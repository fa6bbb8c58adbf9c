"""Padding: Caffe2's rule as a loop, compared with onnxruntime, engines, refusals."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError, ShapeError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same
from tests.support.onnx_nodes import onnxruntime_outputs

PAD = OperatorDef.of("Pad", ["X", "pads"], ["Y"], domain="onnx")


@st.composite
def paddings(draw: Any) -> List[Any]:
    """Data, and pads of either sign that leave at least one element."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    heads = [draw(st.integers(1 - n, 7)) for n in shape]
    tails = [draw(st.integers(1 - n - min(head, 0), 7)) for n, head in zip(shape, heads)]
    dtype = draw(st.sampled_from(["f4", "u1"]))
    return [np.arange(np.prod(shape)).reshape(shape).astype(dtype), np.array(heads + tails)]


@given(paddings(), st.sampled_from(["constant", "reflect", "edge", "wrap"]))
@settings(max_examples=200)
def test_engines_agree(inputs: List[Any], mode: str) -> None:
    assert assert_engines_match_reference(PAD.with_args(mode=mode), inputs, constants=(1,)) == ["NUMPY"]


@pytest.mark.parametrize("pads", [[-1, 2], [2, -1], [-2, 3], [-1, -2], [5, 5]])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_negative_pads_remove_first_as_in_onnxruntime(mode: str, pads: List[int]) -> None:
    inputs = [np.arange(6, dtype=np.float32), np.array(pads)]
    op = PAD.with_args(mode=mode)
    assert_same(run_kernel(op, inputs, "NUMPY", constants=(1,))[0], onnxruntime_outputs(op, inputs, ["f4"])[0])


def test_the_constant_may_be_computed() -> None:
    op = OperatorDef.of("Pad", ["X", "pads", "c"], ["Y"], domain="onnx")
    inputs = [np.zeros(2, np.float32), np.array([1, 0]), np.array([3], np.float32)]
    assert run_kernel(op, inputs, "NUMPY", constants=(1,))[0].tolist() == [3, 0, 0]


@given(
    st.lists(st.integers(-1, 3), min_size=4, max_size=4),
    st.sampled_from(["constant", "reflect", "edge"]),
    st.booleans(),
)
@settings(max_examples=100)
def test_pad_image_engines_agree(pads: List[int], mode: str, last: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 6, 3) if last else (2, 3, 5, 6)).astype(np.float32)
    op = OperatorDef.of("PadImage", ["X"], ["Y"], pads=pads, mode=mode, value=1.5, order="NHWC" if last else "NCHW")
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


def caffe2_source(mode: str, i: int, n: int) -> Optional[int]:
    """The pixel that pad_op.cc copies to position i of an image of n pixels; None for the constant."""
    if mode == "constant":
        return i if 0 <= i < n else None
    if mode == "edge":
        return min(n - 1, max(i, 0))
    i = max(i, -i)
    return min(i, 2 * n - i - 2)


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.lists(st.integers(-6, 9), min_size=4, max_size=4),
    st.sampled_from(["constant", "reflect", "edge"]),
)
@settings(max_examples=300, deadline=None)
def test_pad_image_follows_caffe2_and_refuses_to_read_outside_the_image(
    image: Tuple[int, int], pads: List[int], mode: str
) -> None:
    x = np.arange(2 * image[0] * image[1], dtype=np.float32).reshape(1, 2, *image)
    op = OperatorDef.of("PadImage", ["X"], ["Y"], pads=pads, mode=mode, value=1.5)
    rows, columns = (
        [caffe2_source(mode, i, n) for i in range(-head, n + tail)] for n, head, tail in zip(image, pads, pads[2:])
    )
    if not rows or not columns or any(i is not None and i < 0 for i in [*rows, *columns]):
        with pytest.raises(ShapeError, match=r"remove all elements|reflect too far"):
            run_kernel(op, [x])
        return
    expected = np.full((1, 2, len(rows), len(columns)), 1.5, np.float32)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if row is not None and column is not None:
                expected[:, :, i, j] = x[:, :, row, column]
    assert_same(run_kernel(op, [x])[0], expected)
    assert_engines_match_reference(op, [x])


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"pads": [5, 0, 0, 0], "mode": "reflect"}, "reflect too far: at most 4 before and 2 after"),
        ({"pads": [0, 0, 0, 3], "mode": "reflect"}, "reflect too far: at most 4 before and 2 after"),
        ({"pad": 1, "mode": "wrap"}, "mode must be"),
        ({"pads": [1, 1]}, "must be 4 numbers"),
        ({"pad": 1, "stride": 2}, "takes no legacy_pad, stride or dilation"),
        ({"pads": [-2, 0, -1, 0]}, "remove all elements"),
        ({"pad": 1, "order": "HWC"}, "order must be"),
    ],
)
def test_refuses(arguments: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(OperatorDef.of("PadImage", ["X"], ["Y"], **arguments), [np.zeros((1, 3, 3, 3), np.float32)])


@pytest.mark.parametrize(
    ("shape", "pads", "mode", "rule"),
    [
        ((3,), [1], "constant", "pads must be two for each"),
        ((3,), [-2, -2], "constant", "remove more elements than there are"),
        ((0,), [1, 1], "edge", "there is nothing to pad with by edge"),
        ((3,), [1, 1], "mirror", "mode must be"),
    ],
)
def test_onnx_refuses(shape: Any, pads: List[int], mode: str, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(PAD.with_args(mode=mode), [np.zeros(shape, np.float32), np.array(pads)], constants=(1,))
