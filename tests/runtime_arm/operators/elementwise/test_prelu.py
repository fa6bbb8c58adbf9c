"""PRelu: slopes per channel and broadcast, engines over pieces, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm import Predictor
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import NetDef
from runtime_arm.registry.blocks import BLOCK
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.in_place import run_in_place
from tests.support.operands import caffe2, onnx, random

SHAPES = [(2, 3), (2, 3, 0), (1, 3, 200, 200), (3, 4, BLOCK + 1), (BLOCK + 7, 3), (2, 5, 7, 11), (1, 2, 3, 4, 5)]


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES)
def test_there_is_one_slope_per_channel_or_one_for_all(shape: Any, order: str) -> None:
    op, x = caffe2("PRelu", "X S", order=order), random(shape)
    channels = shape[1] if order == "NCHW" else shape[-1]
    for slope in (random((channels,), 1), random((1,), 2)):
        assert assert_engines_match_reference(op, [x, slope], magnitude=10) == ["NUMPY"]
        np.testing.assert_array_equal(run_in_place(op, [x, slope], "NUMPY"), run_kernel(op, [x, slope], "NUMPY")[0])


@pytest.mark.parametrize("slope", [(), (1,), (4,), (3, 1), (1, 3, 1), (2, 1, 4), (2, 3, 4)])
def test_onnx_broadcasts_the_slope(slope: Any) -> None:
    x, slopes = random((2, 3, 4)), random(slope, 1)
    assert_close(run_kernel(onnx("PRelu", "X S"), [x, slopes])[0], np.where(x > 0, x, x * slopes))
    assert assert_engines_match_reference(onnx("PRelu", "X S"), [x, slopes]) == ["NUMPY"]


def test_a_single_slope_is_read_again_in_each_run() -> None:
    net = NetDef("", (onnx("PRelu", "X S"),), external_input=("X", "S"), external_output=("Y",))
    with Predictor(NetDef(""), net, threads=1) as predictor:
        for x, expected in ((-2, -6), (5, 5)):
            assert predictor.run([np.array(x, np.float32), np.array(3, np.float32)])["Y"] == expected


def test_allocates_nothing_of_the_size_of_a_blob() -> None:
    assert allocated_nbytes(caffe2("PRelu", "X S"), [random((1, 64, 128, 128)), random((64,))], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize(
    ("op", "x", "slope", "rule"),
    [
        (caffe2("PRelu", "X S"), (2, 3, 4), 4, "one slope, or one per channel"),
        (caffe2("PRelu", "X S"), (3,), 3, "a channel dimension"),
        (caffe2("PRelu", "X S", order="HWC"), (2, 3), 3, "NCHW or NHWC, got 'HWC'"),
        (onnx("PRelu", "X S"), (3, 1), 4, "broadcast to X"),
    ],
)
def test_refuses(op: Any, x: Any, slope: int, rule: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=rule):
        run_kernel(op, [random(x), random((slope,))])
