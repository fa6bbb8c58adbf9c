"""Transposed convolutions: the engine against the reference kernel, compared with onnxruntime, refusals."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import im2col
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.onnx_nodes import onnxruntime_outputs


def numbers(*shapes: Tuple[int, ...], dtype: Any = np.float32) -> List[Any]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype(dtype) for shape in shapes]


@st.composite
def problems(draw: Any) -> Tuple[OperatorDef, List[Any]]:
    """Small images of one to three dimensions, strides beyond the kernel, pads that remove most of the output."""
    domain = draw(st.sampled_from(["", "onnx"]))
    ndim = draw(st.integers(1, 3)) if domain else 2

    def each(values: Any, count: int = ndim) -> List[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    kernel, stride, image = each(st.integers(1, 4)), each(st.integers(1, 5)), each(st.integers(1, 6))
    dilation = each(st.integers(1, 2)) if domain else [1] * ndim
    extra = each(st.integers(0, 2))
    sizes = [(n - 1) * s + d * (k - 1) + 1 + a for n, s, d, k, a in zip(image, stride, dilation, kernel, extra)]
    heads = [draw(st.integers(0, min(size - 1, 3))) for size in sizes]
    tails = [draw(st.integers(0, min(size - 1 - head, 3))) for size, head in zip(sizes, heads)]
    batch, group = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    depth, width = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    last = not domain and draw(st.booleans())
    x = (batch, *image, group * depth) if last else (batch, group * depth, *image)
    w = (group * depth, *kernel, width) if last else (group * depth, width, *kernel)
    count = draw(st.integers(2, 3))
    if domain:
        more = {"dilations": dilation, "output_padding": extra}
    else:
        more = {"kernels": kernel, "adjs": extra, "order": "NHWC" if last else "NCHW"}
    op = OperatorDef.of(
        "ConvTranspose",
        ["X", "W", "b"][:count],
        ["Y"],
        domain=domain,
        strides=stride,
        pads=heads + tails,
        group=group,
        **more,
    )
    return op, numbers(x, w, (group * width,), dtype=draw(st.sampled_from(["f4", "f8"])))[:count]


def assert_engines_agree(op: OperatorDef, inputs: List[Any]) -> List[str]:
    magnitude = run_kernel(op, [np.abs(x) for x in inputs])[0]
    return assert_engines_match_reference(op, inputs, terms=256, magnitude=magnitude)


@given(problems(), st.sampled_from([100, 1 << 20]))
@settings(max_examples=150)
def test_engine_agrees_with_the_reference(problem: Tuple[OperatorDef, List[Any]], block_nbytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(im2col, "COLUMN_NBYTES", block_nbytes)
        assert assert_engines_agree(*problem) == ["COL2IM"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2, 3], "pads": [1, 0, 0, 2], "output_padding": [1, 2]},
        {"strides": [2, 2], "output_shape": [9, 10]},
        {"strides": [3, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [3, 2], "auto_pad": "SAME_LOWER"},
        {"strides": [2, 2], "dilations": [2, 3], "auto_pad": "VALID"},
        {"strides": [2, 2], "output_shape": [12, 13]},
    ],
)
def test_onnx_attributes_mean_what_they_mean_to_onnxruntime(attributes: Any) -> None:
    op = OperatorDef.of("ConvTranspose", ["X", "W"], ["Y"], domain="onnx", **attributes)
    inputs = numbers((1, 2, 5, 6), (2, 3, 3, 3))
    assert_close(run_kernel(op, inputs)[0], onnxruntime_outputs(op, inputs, [np.float32])[0], terms=64)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_a_run_allocates_nothing(order: str) -> None:
    shapes = [(2, 32, 40, 41), (32, 16, 4, 4)] if order == "NCHW" else [(2, 40, 41, 32), (32, 4, 4, 16)]
    op = OperatorDef.of("ConvTranspose", ["X", "W", "b"], ["Y"], kernel=4, stride=2, pad=1, order=order)
    assert allocated_nbytes(op, numbers(*shapes, (16,)), "COL2IM") < NUMPY_NBYTES


@pytest.mark.parametrize(
    ("arguments", "shapes", "rule"),
    [
        ({"kernel": 3}, [(1, 3, 5), (3, 2, 3)], "the image must have two dimensions, got 1"),
        ({"kernel": 3, "legacy_pad": 3}, [(1, 3, 4, 4), (3, 2, 3, 3)], "legacy_pad must be 0, 1 or 2, got 3"),
        ({"kernel": 3, "legacy_pad": 1, "pad": 0}, [(1, 3, 4, 4), (3, 2, 3, 3)], "pads must not be given"),
        ({"kernel": 2}, [(1, 3, 4, 4), (3, 2, 3, 3)], "the kernel must have the size of the weights"),
        ({"kernel": 3}, [(1, 3, 4, 4), (2, 2, 3, 3)], "X has 3 channels, but the weights take 2"),
        ({"kernel": 3, "group": 2}, [(1, 3, 4, 4), (3, 2, 3, 3)], "3 channels cannot be divided into 2 groups"),
        ({"kernel": 3, "pad": 3}, [(1, 3, 4, 4), (3, 2, 3, 3)], "remove all of"),
        ({"kernel": 3}, [(1, 3, 4, 4), (3, 2, 3, 3), (3,)], "the bias must have one value per filter"),
        ({}, [(1, 3, 4, 4), (3, 2, 3, 3)], r"kernel must have 2 values for 2 dimensions, got \[\]"),
    ],
)
def test_refuses(arguments: Any, shapes: Any, rule: str) -> None:
    op = OperatorDef.of("ConvTranspose", ["X", "W", "b"][: len(shapes)], ["Y"], **arguments)
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(op, numbers(*shapes))
