"""TensorFlow Lite's own operators on floats: fast kernels against reference kernels, edges, refusals.

What they compute is compared with LiteRT in tests/exporter/tflite/.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ArgumentError, OperatorError, ShapeError
from runtime_arm.netdef import dtypes
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes
from tests.support.operands import random, tflite


def eight_bit(*shape: int) -> Any:
    return np.random.default_rng(1).integers(-127, 128, shape).astype(np.int8)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "uint8"])
def test_floor_div_rounds_down(dtype: str) -> None:
    a, b = np.array([[7, 6, 5], [1, 100, 3]], dtype), np.array([2, 3, 7], dtype)
    assert assert_engines_match_reference(tflite("FloorDiv", "A B"), [a, b]) == ["NUMPY"]
    np.testing.assert_array_equal(run_kernel(tflite("FloorDiv", "A B"), [a, b])[0], [[3, 2, 0], [0, 33, 0]])
    if dtype != "uint8":
        np.testing.assert_array_equal(run_kernel(tflite("FloorDiv", "A B"), [-a, b])[0][0], [-4, -2, -1])


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("to", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"])
def test_a_cast_to_integers_saturates(source: str, to: str) -> None:
    beyond = [127.9, 128, 255.5, 256, 32768, 65504, 3e9, 1e10, 1e20, np.inf]
    with np.errstate(over="ignore"):
        x = np.array([0, 1.5, np.nan, *beyond, *(-value for value in beyond)], source)
    op = tflite("Cast", "X", to=getattr(dtypes, to))
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]
    limits, y = np.iinfo(to.lower()), run_kernel(op, [x])[0]
    assert y[:3].tolist() == [0, 1, limits.max]
    assert [y[12], y[22]] == [limits.max, limits.min]
    assert_engines_match_reference(op, [x[:2]])  # all of it fits


@pytest.mark.parametrize("engine", ["NUMPY", "REFERENCE"])
def test_integers_are_not_divided_by_zero(engine: str) -> None:
    with pytest.raises(OperatorError, match="integer division by 0"):
        run_kernel(tflite("FloorDiv", "A B"), [np.array([1, 2]), np.array([1, 0])], engine)


def test_right_shift_keeps_the_sign_and_is_limited_to_the_number_of_bits() -> None:
    a, places = np.array([-9, 9, -1, 100], np.int8), np.array([1, 1, 100, -5], np.int8)
    np.testing.assert_array_equal(run_kernel(tflite("RightShift", "A B"), [a, places])[0], [-5, 4, -1, 100])


def test_atan2_in_all_quadrants() -> None:
    y, x = np.array([1, 1, -1, -1, 0], np.float32), np.array([1, -1, -1, 1, -1], np.float32)
    assert assert_engines_match_reference(tflite("Atan2", "Y X", "A"), [y, x]) == ["NUMPY"]


def test_logistic_rounds_every_step_as_litert_does() -> None:
    edges = [16.619047, 16.61905, 16.63, -9.0, -9.000001, 88.0, -88.0, -104.0, 1e30, -1e30, np.inf, -np.inf, 0.0]
    x = np.concatenate([np.array(edges, np.float32), np.linspace(-20, 20, 70001, dtype=np.float32)])
    fast, slow = (run_kernel(tflite("Logistic", "X"), [x], engine)[0] for engine in ("NUMPY", "REFERENCE"))
    assert fast.tobytes() == slow.tobytes()
    np.testing.assert_array_equal(fast[[1, 2, 5, 8, 10, 11]], [1, 1, 1, 1, 1, 0])
    np.testing.assert_allclose(fast[13:], 1 / (1 + np.exp(-x[13:].astype(np.float64))), rtol=3e-4)  # approximation
    assert np.isnan(run_kernel(tflite("Logistic", "X"), [np.array([np.nan], np.float32)])[0]).all()


@pytest.mark.parametrize("scales", [[0.01], [0.01, 0.02, 0.03, 0.04, 0.05]])
@pytest.mark.parametrize(
    ("x", "w", "more"),
    [
        ((2, 4, 9, 8), (5, 4, 3, 3), {"kernels": [3, 3], "pads": [1, 1, 1, 1]}),
        ((1, 4, 9, 8), (5, 4, 1, 1), {"kernels": [1, 1]}),
        ((1, 4, 9, 8), (5, 4, 3, 2), {"kernels": [3, 2], "strides": [2, 1], "dilations": [1, 2]}),
        ((1, 512, 6, 6), (5, 512, 3, 3), {"kernels": [3, 3]}),
    ],
)
def test_hybrid_convolutions_are_exact(x: Sequence[int], w: Sequence[int], more: Any, scales: Any) -> None:
    op = tflite("HybridConv", "X W b", W_scales=scales, **more)
    operands = [np.abs(random(x)), eight_bit(*w), random([5], seed=2)]
    fast, slow = (run_kernel(op, operands, engine, constants=[1, 2])[0] for engine in ("INT8", "REFERENCE"))
    np.testing.assert_array_equal(fast, slow)


def test_hybrid_depthwise_convolutions_are_exact() -> None:
    op = tflite("HybridDepthwiseConv", "X W", W_scales=[0.01] * 16, kernels=[3, 3], group=8)
    operands = [random((2, 8, 12, 16)), eight_bit(16, 1, 3, 3)]
    fast, slow = (run_kernel(op, operands, engine, constants=[1])[0] for engine in ("INT8", "REFERENCE"))
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("asymmetric", [0, 1])
@pytest.mark.parametrize("length", [7, 5000])
def test_hybrid_rows_are_exact(length: int, asymmetric: int) -> None:
    op = tflite("HybridFullyConnected", "X W b", W_scales=[0.01], asymmetric=asymmetric)
    operands = [np.abs(random((3, 2, length))), eight_bit(6, length), random([6], seed=2)]
    fast, slow = (run_kernel(op, operands, engine, constants=[1, 2])[0] for engine in ("INT8", "REFERENCE"))
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("scales", [[0.01, 0.02], [float("inf")], [float("nan")]])
def test_hybrid_layers_refuse_impossible_scales(scales: Any) -> None:
    op = tflite("HybridConv", "X W", W_scales=scales, kernels=[1, 1])
    with pytest.raises(ArgumentError, match=r"W_scales must (hold|be finite)"):
        run_kernel(op, [random((1, 4, 2, 2)), eight_bit(5, 4, 1, 1)], constants=[1])


def test_hybrid_layers_allocate_nothing_while_they_run() -> None:
    op = tflite("HybridConv", "X W b", W_scales=[0.01], kernels=[3, 3], pads=[1, 1, 1, 1])
    operands = [random((1, 16, 96, 96)), eight_bit(16, 16, 3, 3), random([16])]
    assert allocated_nbytes(op, operands, "INT8", constants=[1, 2]) < NUMPY_NBYTES


def test_gather_refuses_indices_outside() -> None:
    x, indices = random((2, 3, 4)), np.array([[0, 3], [1, 1]], np.int32)
    np.testing.assert_array_equal(
        run_kernel(tflite("Gather", "X I", axis=2, batch_dims=1), [x, indices])[0][1], x[1][:, [1, 1]]
    )
    with pytest.raises(ShapeError, match="not 0 to 2"):
        run_kernel(tflite("Gather", "X I", axis=1, batch_dims=1), [x, indices])


@pytest.mark.parametrize("constants", [[], [2]])
def test_an_update_that_exceeds_the_end_is_moved_inside(constants: Any) -> None:
    operands = [np.zeros((3, 3)), np.ones((2, 1)), np.array([9, -4], np.int64)]
    op = tflite("DynamicUpdateSlice", "X U S")
    assert assert_engines_match_reference(op, operands, constants=constants) == ["NUMPY"]
    (y,) = run_kernel(op, operands, constants=constants)
    np.testing.assert_array_equal(y, [[0, 0, 0], [1, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize(("reduction", "empty"), [("sum", 0), ("prod", 1), ("max", -128), ("min", 127)])
def test_a_segment_without_slices_is_the_neutral_element(reduction: str, empty: int) -> None:
    op = tflite("UnsortedSegment", "X I N", reduction=reduction)
    operands = [np.array([5, 7], np.int8), np.array([1, -1], np.int32), np.array(2, np.int32)]
    np.testing.assert_array_equal(run_kernel(op, operands, constants=[2])[0], [empty, 5])


def test_boxes_that_overlap_too_much_are_dropped_and_the_rest_is_zeros() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 1, 1], [0, 0, 0, 0]], np.float32)
    limits = [np.array(4, np.int32), np.array(0.5, np.float32), np.array(0.1, np.float32)]
    op = tflite("NonMaxSuppression", "B S M O L", "I V N")
    scores = np.array([0.5, 0.9, 0.9, 0.05], np.float32)
    indices, values, count = run_kernel(op, [boxes, scores, *limits], constants=[2, 3, 4])
    np.testing.assert_array_equal(indices, [1, 2, 0, 0])
    np.testing.assert_array_equal(values, np.array([0.9, 0.9, 0, 0], np.float32))
    assert count == 2


def test_an_lstm_refuses_weights_that_do_not_fit() -> None:
    names = ["X", *(f"w{i}" for i in range(8)), "-", "-", "-", *(f"b{i}" for i in range(4)), "-", "-", "h", "c"]
    op = tflite("LSTM", " ".join(names), "Y H C")
    weights = [random((3, 5))] * 4 + [random((3, 3))] * 4 + [None] * 3 + [random([3])] * 4 + [None] * 2
    states = [random((2, 3))] * 2
    assert run_kernel(op, [random((4, 2, 5)), *weights, *states])[0].shape == (4, 2, 3)
    with pytest.raises(ShapeError, match=r"input 1 must have the shape \(3, 6\)"):
        run_kernel(op, [random((4, 2, 6)), *weights, *states])
    with pytest.raises(ShapeError, match="states must be matrices of 7 rows"):
        run_kernel(op, [random((4, 7, 5)), *weights, *states])


def test_an_svdf_layer_remembers_as_many_steps_as_it_has_weights_of_time() -> None:
    op = tflite("SVDF", "F W S", "Y T", rank=1)
    state = np.zeros((1, 2 * 3), np.float32)
    weights = np.array([[1, 10, 100], [0, 0, 1]], np.float32)
    for features, wanted in (([1, 2], [100, 2]), ([3, 4], [310, 4]), ([5, 6], [531, 6]), ([0, 0], [53, 0])):
        y, state = run_kernel(op, [np.array([features], np.float32), weights, state])
        np.testing.assert_array_equal(y, [wanted])
