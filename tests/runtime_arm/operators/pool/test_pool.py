"""Pools: engines against the reference kernels, compared with onnxruntime, refusals."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from runtime_arm.engines.pool import pooling
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.onnx_nodes import onnxruntime_outputs


def numbers(seed: int, *shape: int, dtype: Any = np.float32) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 50).astype(dtype)


@st.composite
def pools(draw: Any) -> Tuple[OperatorDef, Any]:
    """Small images of one to three dimensions; pads beyond half the kernel, strides beyond the kernel."""
    ndim, domain = draw(st.integers(1, 3)), draw(st.sampled_from(["", "onnx"]))

    def each(values: Any) -> List[int]:
        return draw(st.lists(values, min_size=ndim, max_size=ndim))

    kernel, stride = each(st.integers(1, 4)), each(st.integers(1, 5))
    dilation = each(st.integers(1, 2)) if domain else [1] * ndim
    pads = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    needed = [d * (k - 1) + 1 - a - b for d, k, a, b in zip(dilation, kernel, pads[:ndim], pads[ndim:])]
    image = [draw(st.integers(max(1, least), max(1, least) + 8)) for least in needed]
    last = not domain and draw(st.booleans())
    channels = draw(st.integers(1, 3))
    batch = draw(st.integers(0, 2))
    x = numbers(draw(st.integers(0, 99)), *((batch, *image, channels) if last else (batch, channels, *image)))
    type = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    common = {"strides": stride, "pads": pads, "count_include_pad": draw(st.integers(0, 1))}
    if domain:
        more = {"kernel_shape": kernel, "dilations": dilation, "ceil_mode": draw(st.integers(0, 1))}
    else:
        more = {"kernels": kernel, "order": "NHWC" if last else "NCHW"}
    return OperatorDef.of(type, ["X"], ["Y"], domain=domain, **common, **more), x


@given(pools(), st.sampled_from([40, 1 << 18]))
@settings(max_examples=200)
def test_engine_agrees_with_the_reference(problem: Tuple[OperatorDef, Any], block_nbytes: int) -> None:
    op, x = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooling, "BLOCK_NBYTES", block_nbytes)
        engines = assert_engines_match_reference(op, [x], terms=64, magnitude=np.abs(x).max(initial=0))
    assert engines == ["NUMPY"]


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("order", "shape"), [("NCHW", (2, 5, 7, 9)), ("NHWC", (2, 7, 9, 5)), ("NCHW", (3, 2, 11))])
def test_global_pooling(type: str, order: str, shape: Tuple[int, ...]) -> None:
    op = OperatorDef.of(type, ["X"], ["Y"], global_pooling=1, order=order)
    assert assert_engines_match_reference(op, [numbers(0, *shape)], terms=63) == ["NUMPY"]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "float16", "float64"])
def test_maxima_of_every_type(dtype: str) -> None:
    x = numbers(0, 1, 2, 8, 9, dtype=dtype)
    op = OperatorDef.of("MaxPool", ["X"], ["Y"], domain="onnx", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


def test_infinities_and_windows_without_a_pixel() -> None:
    x = np.full((1, 1, 6, 6), -np.inf, np.float32)
    op = OperatorDef.of("MaxPool", ["X"], ["Y"], kernel=2, stride=3, legacy_pad=3)
    (y,) = run_kernel(op, [x])
    assert y[0, 0].tolist() == [[-np.inf] * 2 + [np.finfo(np.float32).min]] * 2 + [[np.finfo(np.float32).min] * 3]
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
        {"kernel_shape": [2, 3], "dilations": [2, 2], "ceil_mode": 1, "strides": [2, 3], "storage_order": 1},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ],
)
def test_indices_agree_with_onnxruntime(attributes: Any) -> None:
    x = numbers(1, 2, 3, 9, 8)
    op = OperatorDef.of("MaxPool", ["X"], ["Y", "I"], domain="onnx", **attributes)
    expected = onnxruntime_outputs(op, [x], [np.float32, np.int64])
    for actual, wanted in zip(run_kernel(op, [x]), expected):
        np.testing.assert_array_equal(actual, wanted)
    assert supporting_engines(op, [x]) == []


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": 3, "stride": 2, "pad": 1},
        {"kernel": 3, "stride": 1},
        {"kernel": 2, "stride": 2, "order": "NHWC"},
        {"global_pooling": 1},
    ],
)
def test_a_run_allocates_nothing(type: str, arguments: Any) -> None:
    op = OperatorDef.of(type, ["X"], ["Y"], **arguments)
    assert allocated_nbytes(op, [numbers(0, 2, 64, 80, 64)], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"kernel": 2, "dilation": 2}, r"dilation must be 1 for a pool, got \[2, 2\]"),
        ({"kernel": 2, "pad": 2}, r"pads must be smaller than the kernel, got \[2, 2, 2, 2\] for \[2, 2\]"),
        ({"kernel": 9}, "the kernel spans"),
        (
            {"kernel": 1 << 40, "pad": 1 << 39},
            r"the kernel, \[1099511627776, 109.* is too large for the image, \[5, 5\]",
        ),
        ({"global_pooling": 1, "stride": 2}, "global_pooling takes neither"),
        ({}, "the kernel size is missing"),
    ],
)
def test_refuses(arguments: Any, rule: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(OperatorDef.of("MaxPool", ["X"], ["Y"], **arguments), [numbers(0, 1, 1, 5, 5)])


def test_max_unpool_refuses_indices_outside() -> None:
    op = OperatorDef.of("MaxUnpool", ["X", "I"], ["Y"], domain="onnx", kernel_shape=[2], strides=[2])
    with pytest.raises(ShapeError, match="less than 4, the number of elements"):
        run_kernel(op, [numbers(0, 1, 1, 2), np.array([[[0, 4]]])])
