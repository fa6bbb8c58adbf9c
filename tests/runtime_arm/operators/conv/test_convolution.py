"""Convolutions: engines against the reference kernel, allocations, refusals."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of, supporting_engines
from runtime_arm.engines.conv import im2col
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

Problem = Tuple[OperatorDef, List[Any]]


def arrays(seed: int, *shapes: Tuple[int, ...], dtype: Any = np.float32) -> List[Any]:
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(shape).astype(dtype) for shape in shapes]


@st.composite
def convolutions(draw: Any, largest_kernel: int = 4, largest_pad: int = 3) -> Problem:
    """Small images of one to three dimensions: single pixels, kernels beyond the image, strides beyond the kernel."""
    ndim, group = draw(st.integers(1, 3)), draw(st.sampled_from([1, 1, 2, 3]))
    depth, width, batch = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(0, 3))

    def each(values: Any, count: int = ndim) -> List[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    kernel, dilation, stride = each(st.integers(1, largest_kernel)), each(st.integers(1, 2)), each(st.integers(1, 5))
    pads = each(st.integers(0, largest_pad), 2 * ndim)
    needed = [d * (k - 1) + 1 - head - tail for d, k, head, tail in zip(dilation, kernel, pads[:ndim], pads[ndim:])]
    image = [draw(st.integers(max(1, least), max(1, least) + 7)) for least in needed]
    last = draw(st.booleans())
    x = (batch, *image, group * depth) if last else (batch, group * depth, *image)
    w = (group * width, *kernel, depth) if last else (group * width, depth, *kernel)
    inputs = arrays(draw(st.integers(0, 99)), x, w, (group * width,), dtype=draw(st.sampled_from(["f4", "f4", "f8"])))
    count = draw(st.integers(2, 3))
    op = OperatorDef.of(
        draw(st.sampled_from(["Conv", "ConvRelu"])),
        ["X", "W", "b"][:count],
        ["Y"],
        kernels=kernel,
        strides=stride,
        dilations=dilation,
        pads=pads,
        group=group,
        order="NHWC" if last else "NCHW",
    )
    return op, inputs[:count]


def assert_engines_agree(op: OperatorDef, inputs: List[Any]) -> List[str]:
    magnitude = run_kernel(op, [np.abs(x) for x in inputs])[0]
    return assert_engines_match_reference(op, inputs, terms=inputs[1][0].size + 1, magnitude=magnitude)


@given(convolutions())
@settings(max_examples=150)
def test_im2col_agrees_with_the_reference(problem: Problem) -> None:
    assert "IM2COL" in assert_engines_agree(*problem)


@given(convolutions(largest_kernel=1, largest_pad=0))
@settings(max_examples=60)
def test_pointwise_agrees_with_the_reference(problem: Problem) -> None:
    engines = assert_engines_agree(*problem)
    assert ("POINTWISE" in engines) == (set(problem[0].get_ints("strides")) == {1})


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("image", [(3, 31, 37), (40, 8, 9), (2, 5, 700)])
def test_blocks_of_the_columns_join_seamlessly(order: str, image: Tuple[int, int, int], monkeypatch: Any) -> None:
    monkeypatch.setattr(im2col, "COLUMN_NBYTES", 20_000)
    for batch, group in ((1, 1), (5, 2)):
        x, w = (batch, 2 * group, *image), (3 * group, 2, 3, 3, 3)
        if order == "NHWC":
            x, w = (batch, *image, 2 * group), (3 * group, 3, 3, 3, 2)
        op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernels=[3, 3, 3], pads=[1] * 6, group=group, order=order)
        assert_engines_agree(op, arrays(batch, x, w, (3 * group,)))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("kernel", "stride", "group", "engine"),
    [
        (1, 1, 1, "POINTWISE"),
        (1, 1, 4, "POINTWISE"),
        (1, 2, 1, "IM2COL"),
        (3, 1, 1, "IM2COL"),
        (3, 2, 4, "IM2COL"),
        (3, 1, 32, "IM2COL"),
    ],
)
def test_a_run_allocates_nothing(order: str, kernel: int, stride: int, group: int, engine: str) -> None:
    x, w = (2, 32, 80, 81), (64, 32 // group, kernel, kernel)
    if order == "NHWC":
        x, w = (2, 80, 81, 32), (64, kernel, kernel, 32 // group)
    op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, group=group, order=order)
    assert allocated_nbytes(op, arrays(0, x, w, (64,)), engine, constants=(1, 2)) < NUMPY_NBYTES


def test_columns_stay_within_their_bound() -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, pad=1)
    inputs = arrays(0, (1, 64, 112, 112), (64, 64, 3, 3))
    schema, specs = lookup(op), specs_of(inputs)
    (columns,) = schema.kernels["IM2COL"].scratch(op, specs, schema.infer(op, specs))
    assert columns.nbytes <= im2col.COLUMN_NBYTES


def test_half_precision_is_left_to_the_reference() -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=1)
    assert supporting_engines(op, arrays(0, (1, 2, 3, 3), (2, 2, 1, 1), dtype="f2")) == []


@pytest.mark.parametrize(
    ("arguments", "shapes", "rule"),
    [
        ({"kernel": 3}, [(1, 3, 6, 6), (4, 2, 3, 3)], "X has 3 channels, but the weights take 2 in each of 1 groups"),
        ({"kernel": 3, "group": 2}, [(1, 4, 6, 6), (3, 2, 3, 3)], "3 filters cannot be divided into 2 groups"),
        ({"kernel": 3, "group": 0}, [(1, 4, 6, 6), (3, 2, 3, 3)], "group must be at least 1, got 0"),
        ({"kernel": 2}, [(1, 2, 6, 6), (3, 2, 3, 3)], r"the kernel must have the size of the weights, got \[2, 2\]"),
        ({"kernel": 3, "stride": 0}, [(1, 2, 6, 6), (3, 2, 3, 3)], r"stride must be at least 1, got \[0, 0\]"),
        ({"kernel": 3, "pad": -1}, [(1, 2, 6, 6), (3, 2, 3, 3)], r"pad must be at least 0"),
        ({"kernel": 3}, [(1, 2, 2, 6), (3, 2, 3, 3)], r"spans \[3, 3\] pixels, but the padded image has only \[2, 6\]"),
        ({"kernel": 3}, [(1, 2, 6), (3, 2, 3)], "kernel must have 1 values for 1 dimensions"),
        ({"kernel": 3}, [(1, 2, 6, 6), (3, 2, 3, 3), (4,)], "the bias must have one value per filter"),
        ({"kernel": 3}, [(1, 2, 6, 6), (3, 2, 3)], "the same number of dimensions"),
        ({}, [(1, 2, 6, 6), (3, 2, 3, 3)], "the kernel size is missing"),
        ({"kernel": 3, "order": "CHWN"}, [(1, 2, 6, 6), (3, 2, 3, 3)], "order must be NCHW or NHWC, got 'CHWN'"),
        (
            {"kernel": 3, "legacy_pad": 2, "pad": 1},
            [(1, 2, 6, 6), (3, 2, 3, 3)],
            "legacy_pad 2 computes the padding",
        ),
        ({"kernel": 3, "legacy_pad": 7}, [(1, 2, 6, 6), (3, 2, 3, 3)], "legacy_pad must be 0, 1, 2 or 3, got 7"),
    ],
)
def test_refuses(arguments: Any, shapes: Any, rule: str) -> None:
    op = OperatorDef.of("Conv", ["X", "W", "b"][: len(shapes)], ["Y"], **arguments)
    with pytest.raises((ShapeError, ArgumentError), match=rule):
        run_kernel(op, arrays(0, *shapes))


def test_refuses_integers_and_mixed_types() -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=1)
    x, w = arrays(0, (1, 2, 3, 3), (2, 2, 1, 1))
    for inputs in ([x.astype("i4"), w.astype("i4")], [x, w.astype("f8")]):
        with pytest.raises(OperatorError, match="floats of one type"):
            run_kernel(op, inputs)


@pytest.mark.parametrize(
    ("auto_pad", "dilation", "expected"),
    [
        ("SAME_UPPER", 1, [5.0, 8.0, 3.0]),
        ("SAME_LOWER", 1, [2.0, 5.0, 8.0]),
        ("VALID", 1, [5.0, 8.0]),
        ("SAME_UPPER", 2, [4.0, 7.0, 2.0]),
    ],
)
def test_onnx_auto_pad_follows_the_size_of_the_image(auto_pad: str, dilation: int, expected: List[float]) -> None:
    x, w = np.array([[[1, 2, 3]]], np.float32), np.array([[[1, 2]]], np.float32)
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], domain="onnx", auto_pad=auto_pad, dilations=[dilation])
    assert run_kernel(op, [x, w])[0].ravel().tolist() == expected
    assert_engines_match_reference(op, [x, w], terms=2)
