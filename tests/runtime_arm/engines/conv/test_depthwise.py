"""DEPTHWISE against the reference on random shapes and at the edges of its blocks; when it is chosen or refused."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import depthwise
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

Problem = Tuple[OperatorDef, List[Any]]
WEIGHTS = (1, 2)


def problem(
    image: Sequence[int],
    channels: int,
    kernel: Sequence[int],
    multiplier: int = 1,
    batch: int = 1,
    dtype: str = "f4",
    type: str = "Conv",
    **arguments: Any,
) -> Problem:
    draw = np.random.default_rng(channels)
    shapes = [(batch, channels, *image), (channels * multiplier, 1, *kernel), (channels * multiplier,)]
    op = OperatorDef.of(type, ["X", "W", "b"], ["Y"], kernels=list(kernel), group=channels, **arguments)
    return op, [draw.standard_normal(shape).astype(dtype) for shape in shapes]


@st.composite
def problems(draw: Any, ndim: int = 2) -> Problem:
    """Includes single pixels and channels, kernels as large as the padded image, and pads larger than the kernel.

    ndim: dimensions of the image.
    """

    def numbers(values: Any, count: int = ndim) -> List[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    kernel, stride, dilation = numbers(st.integers(1, 5)), numbers(st.integers(1, 4)), numbers(st.integers(1, 3))
    pads = numbers(st.integers(0, 6), 2 * ndim)
    least = [d * (k - 1) + 1 - head - tail for d, k, head, tail in zip(dilation, kernel, pads[:ndim], pads[ndim:])]
    more = [0, 1, 2, 6, 10] if ndim > 2 else [0, 1, 2, 6, 10, 16, 22]
    return problem(
        [max(1, n) + draw(st.sampled_from(more)) for n in least],
        draw(st.sampled_from([1, 2, 3, 7])),
        kernel,
        multiplier=draw(st.integers(1, 3)),
        batch=draw(st.integers(0, 2)),
        dtype=draw(st.sampled_from(["f4", "f8"])),
        type=draw(st.sampled_from(["Conv", "ConvRelu"])),
        strides=stride,
        dilations=dilation,
        pads=pads,
    )


def assert_agrees(op: OperatorDef, inputs: List[Any]) -> None:
    (expected,) = run_kernel(op, inputs)
    (actual,) = run_kernel(op, inputs, "DEPTHWISE", constants=WEIGHTS)
    (magnitude,) = run_kernel(op, [np.abs(x) for x in inputs])
    assert_close(actual, expected, terms=inputs[1][0].size + 1, magnitude=magnitude)


@given(problems())
@settings(max_examples=200)
def test_agrees_with_the_reference(drawn: Problem) -> None:
    assert_agrees(*drawn)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("image", [(67, 13), (9, 61), (17, 16)])
def test_blocks_join_seamlessly(image: Tuple[int, int], stride: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(depthwise, "LINES_NBYTES", 3000)
    op, inputs = problem(image, 5, (3, 3), batch=2, pad=1, stride=stride)
    specs = specs_of(inputs, WEIGHTS)
    assert len(list(depthwise.strips_of(op, specs).blocks())) > 2
    assert_agrees(op, inputs)


def test_ends_with_the_epilogue_of_fused_operators(monkeypatch: Any) -> None:
    monkeypatch.setattr(depthwise, "LINES_NBYTES", 3000)
    _, inputs = problem((23, 19), 5, (3, 3), multiplier=2, pad=1)
    draw = np.random.default_rng(0)
    inputs += [draw.standard_normal((1, 10, 23, 19)).astype("f4"), draw.uniform(0, 1, 10).astype("f4")]
    op = OperatorDef.of(
        "FusedConv", ["X", "W", "b", "A", "s"], ["Y"], domain="armnet", kernel=3, pad=1, group=5, activation="PRelu"
    )
    assert_agrees(op, inputs)


def test_is_preferred_for_constant_weights() -> None:
    op, inputs = problem((20, 20), 8, (3, 3), pad=1)
    for constants, engine in ((WEIGHTS, "DEPTHWISE"), ((), "IM2COL")):
        specs = specs_of(inputs, constants)
        kernel, refusals = lookup(op).choose(op, specs, lookup(op).infer(op, specs))
        assert kernel is not None
        assert kernel.engine == engine
    assert refusals["DEPTHWISE"] == "the weights must be constant"


@pytest.mark.parametrize(
    ("shapes", "arguments", "reason"),
    [
        ([(1, 4, 6, 6), (4, 2, 3, 3)], {"kernel": 3, "group": 2}, "every channel must be a group, got 2 groups of 4"),
        ([(1, 6, 6, 4), (4, 3, 3, 1)], {"kernel": 3, "group": 4, "order": "NHWC"}, "the order must be NCHW"),
        ([(1, 4, 6), (4, 1, 3)], {"kernels": [3], "group": 4}, "there must be two or three spatial dimensions, got 1"),
        ([(1, 4, 9, 9), (4, 1, 3, 3)], {"kernel": 3, "group": 4}, "an output row must have at least 10 pixels"),
    ],
)
def test_refuses(shapes: Any, arguments: Any, reason: str) -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], **arguments)
    schema, specs = lookup(op), specs_of([np.zeros(shape, np.float32) for shape in shapes], (1,))
    refusal = schema.kernels["DEPTHWISE"].supports(op, specs, schema.infer(op, specs))
    assert refusal is not None
    assert reason in refusal


@pytest.mark.parametrize("stride", [1, 2])
def test_a_run_allocates_nothing(stride: int) -> None:
    op, inputs = problem((80, 81), 32, (3, 3), batch=2, pad=1, stride=stride)
    assert allocated_nbytes(op, inputs, "DEPTHWISE", constants=WEIGHTS) < NUMPY_NBYTES


@pytest.mark.parametrize("size", [14, 112, 1024])
def test_the_buffer_of_lines_is_bounded_for_any_image_size(size: int) -> None:
    op, inputs = problem((size, size), 16, (3, 3), pad=1)
    schema, specs = lookup(op), specs_of(inputs, WEIGHTS)
    (lines,) = schema.kernels["DEPTHWISE"].scratch(op, specs, schema.infer(op, specs))
    assert lines.nbytes <= depthwise.LINES_NBYTES
