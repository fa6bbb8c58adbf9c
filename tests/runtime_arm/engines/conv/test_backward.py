"""IM2COL for gradients: blocks of rows and of images, groups, what the operator leaves out, allocations."""

from __future__ import annotations

from typing import Any, List

import pytest

from device_tests.suite.kernels import assert_engines_match_reference, specs_of
from runtime_arm.engines.conv import depthwise_lines, gradient_columns, winograd
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.operands import caffe2, random

CONVOLUTIONS = [
    ((3, 4, 9, 8), (6, 4, 3, 3), (3, 6, 9, 8), {"kernel": 3, "pad": 1}),
    (
        (2, 6, 9, 8),
        (4, 3, 3, 2),
        (2, 4, 4, 8),
        {"kernels": [3, 2], "strides": [2, 1], "pads": [0, 0, 0, 1], "group": 2},
    ),
    ((5, 4, 3, 3), (8, 4, 1, 1), (5, 8, 3, 3), {"kernel": 1}),
    ((2, 4, 7, 7), (8, 4, 1, 1), (2, 8, 4, 4), {"kernel": 1, "stride": 2}),
    ((4, 6, 8, 8), (6, 1, 3, 3), (4, 6, 8, 8), {"kernel": 3, "pad": 1, "group": 6}),
]
CHANNELS_LAST = [
    ((3, 9, 8, 4), (6, 3, 3, 4), (3, 9, 8, 6), {"kernel": 3, "pad": 1}),
    (
        (2, 9, 8, 6),
        (4, 3, 2, 3),
        (2, 4, 8, 4),
        {"kernels": [3, 2], "strides": [2, 1], "pads": [0, 0, 0, 1], "group": 2},
    ),
    ((5, 3, 3, 4), (8, 1, 1, 4), (5, 3, 3, 8), {"kernel": 1}),
    ((2, 3, 4, 6), (4, 1, 1, 3), (2, 3, 4, 4), {"kernel": 1, "group": 2}),
]
TRANSPOSED = [
    ((3, 4, 5, 4), (4, 3, 2, 2), (3, 3, 10, 8), {"kernel": 2, "stride": 2}),
    ((2, 6, 5, 4), (6, 2, 3, 3), (2, 4, 9, 7), {"kernel": 3, "stride": 2, "pad": 1, "group": 2}),
]
LAST = [(x, w, dy, {**arguments, "order": "NHWC"}) for x, w, dy, arguments in CHANNELS_LAST]
CASES = [("ConvGradient", *case) for case in CONVOLUTIONS + LAST] + [
    ("ConvTransposeGradient", *case) for case in TRANSPOSED
]


def operator(type: str, shapes: Any, arguments: Any, no_bias: bool, outputs: int = 3) -> Any:
    """A gradient operator of these shapes of X, W and dY, and its operands."""
    names = (["dw", "dx"] if no_bias else ["dw", "db", "dx"])[:outputs]
    op = caffe2(type, "X W dY", " ".join(names), **arguments, **({"no_bias": 1} if no_bias else {}))
    return op, [random(shape, seed) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("nbytes", [1, 3000, 1 << 20])
@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_blocks_of_any_size_add_up(monkeypatch: Any, case: Any, no_bias: bool, nbytes: int) -> None:
    monkeypatch.setattr(gradient_columns, "COLUMN_NBYTES", nbytes)
    monkeypatch.setattr(gradient_columns, "MOST_NBYTES", nbytes)
    type, *shapes, arguments = case
    op, operands = operator(type, shapes, arguments, no_bias)
    engines = ["DEPTHWISE", "IM2COL"] if arguments.get("group") == 6 else ["IM2COL"]
    assert assert_engines_match_reference(op, operands, terms=1000) == engines


@pytest.mark.parametrize("outputs", [1, 2])
def test_what_is_not_named_is_not_computed(outputs: int) -> None:
    *shapes, arguments = CONVOLUTIONS[0]
    op, operands = operator("ConvGradient", shapes, arguments, False, outputs)
    assert assert_engines_match_reference(op, operands, terms=1000) == ["IM2COL"]


@pytest.mark.parametrize("arguments", [{"kernel": 3, "pad": 1}, {"kernel": 1}])
def test_a_run_allocates_nothing_of_the_size_of_a_blob(arguments: Any) -> None:
    kernel = arguments["kernel"]
    shapes: List[Any] = [(4, 32, 40, 40), (32, 32, kernel, kernel), (4, 32, 40, 40)]
    op, operands = operator("ConvGradient", shapes, arguments, False)
    assert isinstance(op, OperatorDef)
    assert allocated_nbytes(op, operands, "IM2COL") < NUMPY_NBYTES


@pytest.mark.parametrize(("size", "tile"), [((12, 13), 4), ((5, 6), 2)])
@pytest.mark.parametrize("pad", [0, 1, 2])
def test_weights_that_change_are_transformed_in_each_run(size: Any, tile: int, pad: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(winograd, "BLOCK_NBYTES", 1 << 15)
    monkeypatch.setattr(winograd, "open_tiles", lambda op, taps=3: [tile])
    x, w = random((2, 33, *size)), random((34, 33, 3, 3), 1)
    forward = caffe2("Conv", "X W b", kernel=3, pad=pad)
    engines = assert_engines_match_reference(forward, [x, w, random((34,), 2)], terms=1000)
    assert engines == ["WINOGRAD", "IM2COL"]
    (y,) = lookup(forward).infer(forward, specs_of([x, w, random((34,))]))
    for no_bias in (False, True):
        op, operands = operator("ConvGradient", [x.shape, w.shape, y.shape], {"kernel": 3, "pad": pad}, no_bias)
        assert assert_engines_match_reference(op, operands, terms=1000) == ["WINOGRAD", "IM2COL"]
    assert allocated_nbytes(op, operands, "WINOGRAD") < NUMPY_NBYTES


DEPTHWISE = [
    ((2, 5, 12, 11), (3, 3), {"kernel": 3, "pad": 1}),
    ((2, 3, 13, 12), (3, 3), {"kernel": 3, "stride": 2, "pad": 1}),
    ((1, 4, 21, 9), (5, 3), {"kernels": [5, 3], "strides": [2, 1], "pads": [2, 0, 1, 1]}),
    ((2, 3, 14, 13), (3, 3), {"kernel": 3, "dilation": 2, "pad": 2}),
    ((1, 2, 3, 4), (2, 2), {"kernel": 2}),
    ((3, 2, 7, 8), (2, 2), {"kernel": 2, "stride": 3}),
    ((2, 3, 5, 4), (1, 1), {"kernel": 1, "stride": 2, "pad": 1}),
    ((2, 2, 9, 6), (3, 3), {"kernel": 3, "stride": 2, "dilation": 2, "pad": 4}),
]


@pytest.mark.parametrize("nbytes", [1, 2000, 1 << 18])
@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise_strips_of_any_block_add_up(monkeypatch: Any, case: Any, nbytes: int) -> None:
    monkeypatch.setattr(depthwise_lines, "BLOCK_NBYTES", nbytes)
    shape, kernel, arguments = case
    weights = random((shape[1], 1, *kernel), 1)
    forward = caffe2("Conv", "X W", **arguments, group=shape[1])
    (y,) = lookup(forward).infer(forward, specs_of([random(shape), weights]))
    op = caffe2("ConvGradient", "X W dY", "dw db dx", **arguments, group=shape[1])
    operands = [random(shape), weights, random(y.shape, 2)]
    assert assert_engines_match_reference(op, operands, terms=1000) == ["DEPTHWISE", "IM2COL"]
    assert allocated_nbytes(op, operands, "DEPTHWISE") < NUMPY_NBYTES
