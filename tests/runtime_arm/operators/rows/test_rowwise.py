"""Operators that work row by row: NumPy, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from tests.support.exact import assert_same
from tests.support.operands import caffe2, random

DISTANCES = {
    "DotProduct": lambda x, y: (x * y).sum(),
    "CosineSimilarity": lambda x, y: (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()),
    "L1Distance": lambda x, y: np.abs(x - y).sum(),
    "SquaredL2Distance": lambda x, y: 0.5 * np.square(x - y).sum(),
}


@pytest.mark.parametrize("type", sorted(DISTANCES))
@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 2, 5)])
def test_distances_take_whatever_follows_the_first_dimension_as_a_row(type: str, shape: Any) -> None:
    x, y = random(shape), random(shape, 1)
    expected = [DISTANCES[type](*rows) for rows in zip(x.astype(np.float64), y.astype(np.float64))]
    assert_close(run_kernel(caffe2(type, "A B"), [x, y])[0], np.array(expected, np.float32), terms=10, magnitude=10)


def test_distances_of_empty_rows() -> None:
    assert run_kernel(caffe2("DotProduct", "A B"), [random((0, 3))] * 2)[0].shape == (0,)
    assert_same(run_kernel(caffe2("CosineSimilarity", "A B"), [random((2, 0))] * 2)[0], np.zeros(2, np.float32))
    numbers = [np.array(3, np.float32), np.array(5, np.float32)]
    assert_same(run_kernel(caffe2("L1Distance", "A B"), numbers)[0], np.array([2], np.float32))


def test_rows_are_scaled() -> None:
    x, w = random((2, 3, 4)), np.array([4, 0], np.float32)
    assert_same(run_kernel(caffe2("RowMul", "X w"), [x, w])[0], x * w[:, None, None])
    assert_same(run_kernel(caffe2("SquareRootDivide", "X w"), [x, w])[0], np.stack([x[0] / 2, x[1]]))
    scale, bias = random((12,), 1), random((12,), 2)
    assert_close(
        run_kernel(caffe2("ElementwiseLinear", "X w b"), [x, scale, bias])[0],
        x * scale.reshape(3, 4) + bias.reshape(3, 4),
    )


@pytest.mark.parametrize(
    ("op", "shapes", "rule"),
    [
        (caffe2("DotProduct", "A B"), [(2, 3), (3,)], "one shape"),
        (caffe2("RowMul", "X w"), [(2, 3), (3,)], "one element per row"),
        (caffe2("SquareRootDivide", "X w"), [(2, 3), (1, 2)], "one scale per row"),
        (caffe2("ElementwiseLinear", "X w b"), [(2, 3), (2,), (3,)], "vectors of 3"),
        (caffe2("ElementwiseLinear", "X w b", axis=2), [(2, 3), (3,), (3,)], "axis 2 is out of range"),
        (caffe2("SquareRootDivide", "X w"), [(1, 3), (1,)], "must not be negative, got -1"),
    ],
)
def test_refuses(op: Any, shapes: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.full(shape, -1, np.float32) for shape in shapes])


@pytest.mark.parametrize("arguments", [{}, {"pad_value": 0.5}, {"replicate": 1}])
@pytest.mark.parametrize("swapped", [False, True])
def test_rows_of_different_lengths(arguments: Any, swapped: bool) -> None:
    x, y = random((3, 7)), random((3, 2), 1)
    expected = []
    for long, short in zip(x.astype(np.float64), y.astype(np.float64)):
        if arguments.get("replicate"):
            expected.append(sum(long[k] * short[k % 2] for k in range(6)))
        else:
            rest = arguments.get("pad_value", 0) * long[2:].sum()
            expected.append(long[0] * short[0] + long[1] * short[1] + rest)
    op = caffe2("DotProductWithPadding", "A B", **arguments)
    (result,) = run_kernel(op, [y, x] if swapped else [x, y])
    assert_close(result, np.array(expected, np.float32), terms=7, magnitude=10)
