"""Where and Conditional: NumPy, engines, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ShapeError
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.exact import assert_same
from tests.support.operands import caffe2, onnx, random

ROWS = np.array([True, False, True])


@pytest.mark.parametrize("op", [caffe2("Conditional", "C A B"), caffe2("Where", "C A B", broadcast_on_rows=1)])
@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 2, 2)])
def test_a_vector_selects_rows(op: Any, shape: Any) -> None:
    x, y = random(shape), random(shape, 1)
    assert_same(run_kernel(op, [ROWS, x, y], "NUMPY")[0], np.stack([x[0], y[1], x[2]]))
    assert_engines_match_reference(op, [ROWS, x, y])


@pytest.mark.parametrize("shapes", [((4, 1), (1, 5), ()), ((5,), (4, 5), (1,)), ((), (2, 3), (3,)), ((0, 3), (3,), ())])
def test_onnx_broadcasts_all_three(shapes: Any) -> None:
    inputs = [random(shapes[0]) > 0, random(shapes[1], 1), random(shapes[2], 2)]
    assert_same(run_kernel(onnx("Where", "C A B"), inputs, "NUMPY")[0], np.where(*inputs))
    assert_engines_match_reference(onnx("Where", "C A B"), inputs)


def test_allocates_nothing_of_the_size_of_a_blob() -> None:
    x = random((1 << 20,))
    assert allocated_nbytes(onnx("Where", "C A B"), [x > 0, x, -x], "NUMPY") < NUMPY_NBYTES


@pytest.mark.parametrize(
    ("op", "shapes", "dtypes", "rule"),
    [
        (caffe2("Where", "C A B"), ((3,), (2, 3), (2, 3)), "?ff", "the condition must have the shape"),
        (caffe2("Where", "C A B"), ((2, 3), (2, 3), (3,)), "?ff", "both choices must have one shape"),
        (caffe2("Where", "C A B"), ((3,), (3,), (3,)), "iff", "input 'C' must be bool"),
        (caffe2("Where", "C A B"), ((3,), (3,), (3,)), "?BB", "takes bool, int32"),
        (caffe2("Where", "C A B", broadcast_on_rows=1), ((3,), (2, 3), (2, 3)), "?ff", "one element per row"),
        (caffe2("Conditional", "C A B"), ((2, 1), (2, 3), (2, 3)), "?ff", "one element per row"),
        (onnx("Where", "C A B"), ((3,), (3,), (3,)), "?fd", "of one dtype"),
        (onnx("Where", "C A B"), ((3,), (4,), (3,)), "?ff", "do not broadcast"),
    ],
)
def test_refuses(op: Any, shapes: Any, dtypes: str, rule: str) -> None:
    with pytest.raises(ShapeError, match=rule):
        run_kernel(op, [np.ones(shape, dtype) for shape, dtype in zip(shapes, dtypes)])
