"""Losses: formulas, extreme inputs, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.operands import caffe2, onnx, random


def test_loss_weighs_scales_and_averages() -> None:
    x = np.log(np.array([[1, 3], [2, 2]], np.float32))
    labels, weights = np.array([1, 0], np.int32), np.array([1, 3], np.float32)
    quarter, half = -np.log(0.75), -np.log(0.5)
    for arguments, operands, expected in [
        ({}, [], (quarter + half) / 2),
        ({"scale": 2.0}, [], quarter + half),
        ({}, [weights], (quarter + 3 * half) / 4),
        ({"average_by_batch_size": 1}, [weights], (quarter + 3 * half) / 2),
    ]:
        op = caffe2("SoftmaxWithLoss", "X l w" if operands else "X l", "Y loss", **arguments)
        assert_close(run_kernel(op, [x, labels, *operands])[1], np.array(expected, np.float32))
    spread = caffe2("SoftmaxWithLoss", "X l", "Y loss", label_prob=1)
    probabilities = np.array([[0, 1], [0.5, 0.5]], np.float32)
    assert_close(run_kernel(spread, [x, probabilities])[1], np.array((quarter + half) / 2, np.float32))


@pytest.mark.parametrize("arguments", [{}, {"scale": 0.5}, {"average_by_batch_size": 1}, {"axis": 2}])
@pytest.mark.parametrize("weighted", [False, True])
def test_loss_of_labels_by_numpy(arguments: Any, weighted: bool) -> None:
    shape, rows = ((2, 3, 4), 6) if "axis" in arguments else ((6, 4), 6)
    labels = np.array([3, 0, 1, 2, 2, 0], np.int32)
    operands = [random(shape) * 100, labels, *([np.abs(random((rows,), 1))] if weighted else [])]
    op = caffe2("SoftmaxWithLoss", "X l w" if weighted else "X l", "Y loss", **arguments)
    assert assert_engines_match_reference(op, operands) == ["NUMPY"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [1.4634732, 0.5884964]),
        ({"log_D_trick": 1}, [1.5667424, -0.1123324]),
        ({"unjoined_lr_loss": 1}, [0.9401138, 0.236507]),
    ],
)
def test_sigmoid_cross_entropy_has_three_forms(arguments: Any, expected: Any) -> None:
    """Numbers that Caffe2 computed."""
    x = np.array([[-2.223403, 0.625231, -1.602058], [-1.104383, 0.052165, -0.739563]], np.float32)
    targets = np.array([[1.543015, 1.292857, 0.267051], [0.039283, 1.168093, 0.523277]], np.float32)
    (y,) = run_kernel(caffe2("SigmoidCrossEntropyWithLogits", "X t", **arguments), [x, targets])
    assert_close(y, np.array(expected, np.float32), terms=16)


def test_sigmoid_cross_entropy_does_not_overflow() -> None:
    x, targets = np.array([[1000, -1000]], np.float32), np.array([[0, 1]], np.float32)
    np.testing.assert_array_equal(run_kernel(caffe2("SigmoidCrossEntropyWithLogits", "X t"), [x, targets])[0], [1000])


def test_probabilities_of_zero_cost_a_finite_loss() -> None:
    zeros, labels = np.zeros((2, 3), np.float32), np.array([[2], [0]], np.int32)
    worst = np.full(2, -np.log(1e-20), np.float32)
    np.testing.assert_array_equal(run_kernel(caffe2("LabelCrossEntropy", "X l"), [zeros, labels])[0], worst)
    np.testing.assert_array_equal(run_kernel(caffe2("CrossEntropy", "X l"), [zeros, zeros + 1])[0], 3 * worst)


LOSS = caffe2("SoftmaxWithLoss", "X l", "Y loss")
NLL = onnx("NegativeLogLikelihoodLoss", "X l")
SIGMOID = caffe2("SigmoidCrossEntropyWithLogits", "X t")
REFUSALS: Dict[str, Any] = {
    "one int32": (ShapeError, LOSS, [random((2, 3)), np.zeros(2, np.int64)]),
    "must be 0 to 2, got 0 to 3": (ArgumentError, LOSS, [random((2, 3)), np.array([0, 3], np.int32)]),
    "must sum to 1": (ArgumentError, LOSS.with_args(label_prob=1), [random((2, 3)), random((2, 3))]),
    "each row and class": (ShapeError, LOSS.with_args(label_prob=1), [random((2, 3)), random((2,))]),
    "must be 0 to 2, got -1 to 0": (
        ArgumentError,
        caffe2("LabelCrossEntropy", "X l"),
        [random((2, 3)), np.array([0, -1], np.int32)],
    ),
    r"\(N,\) int32": (ShapeError, caffe2("LabelCrossEntropy", "X l"), [random((2, 3)), np.zeros(2, np.int64)]),
    r"must be \(N, D\)": (ShapeError, caffe2("CrossEntropy", "X l"), [random((2, 3)), random((1, 3))]),
    "must have the same shape": (ShapeError, SIGMOID, [random((2, 3)), random((1, 3))]),
    "cannot both be set": (
        ArgumentError,
        SIGMOID.with_args(log_D_trick=1, unjoined_lr_loss=1),
        [random((2, 3)), random((2, 3))],
    ),
    r"X must be \(N, C, ...\)": (ShapeError, NLL, [random((2, 3, 4)), np.array([0, 1])]),
    "reduction must be": (ArgumentError, NLL.with_args(reduction="max"), [random((2, 3)), np.array([0, 1])]),
    "must be 0 to 2, got 0 to 7": (ArgumentError, NLL, [random((2, 3)), np.array([0, 7])]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs)
