"""Locally connected layers: equal filters everywhere make a convolution; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ShapeError
from runtime_arm.netdef import OperatorDef

rng = np.random.default_rng(0)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("image", [(9,), (7, 8), (4, 5, 6)])
def test_equal_filters_everywhere_make_a_convolution(order: str, image: Any) -> None:
    ndim = len(image)
    x, w, b = (2, 4, *image), (6, 2, *[3] * ndim), (6,)
    if order == "NHWC":
        x, w = (2, *image, 4), (6, *[3] * ndim, 2)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in (x, w, b)]
    arguments: Any = {"kernels": [3] * ndim, "strides": [2] * ndim, "pads": [1] * ndim * 2, "group": 2, "order": order}
    expected = run_kernel(OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], **arguments), inputs)[0]
    output = expected.shape[2:] if order == "NCHW" else expected.shape[1:-1]
    local = [inputs[0], np.tile(inputs[1], (*output, *[1] * len(w))), np.tile(inputs[2], (*output, 1))]
    assert_close(run_kernel(OperatorDef.of("LC", ["X", "W", "b"], ["Y"], **arguments), local)[0], expected, terms=64)


def test_every_position_has_its_own_filter() -> None:
    x = np.array([[[1, 2, 3]]], np.float32)
    w = np.array([[10, 1], [100, 1000]], np.float32).reshape(2, 1, 1, 2)
    op = OperatorDef.of("LC1D", ["X", "W"], ["Y"], kernels=[2])
    assert run_kernel(op, [x, w])[0].tolist() == [[[12, 3200]]]


@pytest.mark.parametrize(
    ("w", "rule"),
    [
        ((3, 4, 1, 2, 2, 2), "there must be filters for"),
        ((4, 4, 1, 2, 3, 3), "must have the size of the weights"),
        ((4, 4, 1, 3, 2, 2), "X has 2 channels"),
        ((4, 1, 2, 2, 2), "one more dimension"),
    ],
)
def test_refuses(w: Any, rule: str) -> None:
    op = OperatorDef.of("LC", ["X", "W"], ["Y"], kernel=2)
    with pytest.raises(ShapeError, match=rule):
        run_kernel(op, [np.zeros((1, 2, 5, 5), np.float32), np.zeros(w, np.float32)])
