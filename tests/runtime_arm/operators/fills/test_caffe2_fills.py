"""Caffe2's fills: tensors and lists of weights, constants, ranges, diagonals, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ArgumentError, ArmnetError, ResourceError, ShapeError
from runtime_arm.netdef import OperatorDef


def fill(type: str, **arguments) -> np.ndarray:
    return run_kernel(OperatorDef.of(type, [], ["y"], **arguments), [])[0]


def test_a_tensor_of_weights_is_returned_without_a_copy() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.shares_memory(fill("GivenTensorFill", values=weights), weights)
    assert fill("GivenTensorFill", values=weights, shape=[3, 2]).shape == (3, 2)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16", "uint32"])
def test_the_plain_fill_returns_tensors_of_dtypes_without_their_own_fill(dtype) -> None:
    assert fill("GivenTensorFill", values=np.ones(2, dtype)).dtype == dtype


@pytest.mark.parametrize(
    "arguments",
    [
        {"values": [1.0, 2.0], "shape": [3]},
        {"values": [1.0], "shape": [-1]},
        {"values": [1, 2], "shape": [2]},
        {"values": "ab", "shape": [2]},
        {"values": np.zeros(2), "shape": [1]},
        {"values": np.zeros(2, np.float32), "shape": [3]},
        {"shape": [1 << 40, 1 << 40]},
    ],
)
def test_weights_that_do_not_fit_are_refused(arguments) -> None:
    with pytest.raises(ArmnetError, match=r"GivenTensorFill\(\) -> y"):
        fill("GivenTensorFill", **arguments)


def test_constants_have_the_dtype_asked_for() -> None:
    assert fill("ConstantFill", shape=[2], value=7, dtype=7 - 1).dtype == np.uint8
    for arguments in ({"value": 300, "dtype": 6}, {"value": 1, "dtype": 99}, {"value": 1.5, "dtype": 2}):
        with pytest.raises(ArgumentError):
            fill("ConstantFill", shape=[2], **arguments)


def test_int8_weights_carry_scale_and_zero_point() -> None:
    from runtime_arm.registry.schema import lookup
    from runtime_arm.registry.specs import Quantization

    op = OperatorDef.of("Int8GivenTensorFill", [], ["y"], values=b"\x01\xff", shape=[2], Y_scale=0.5, Y_zero_point=3)
    assert lookup(op).infer(op, [])[0].quantization == Quantization(0.5, 3)
    np.testing.assert_array_equal(run_kernel(op, [])[0], np.array([1, 255], np.uint8))
    with pytest.raises(ArgumentError, match="Y_scale"):
        run_kernel(op.with_args(Y_scale=0.0), [])
    with pytest.raises(ShapeError):
        run_kernel(op.with_args(shape=[3]), [])


@pytest.mark.parametrize(
    ("type", "values", "dtype"),
    [
        ("GivenTensorFill", [0.5, 2.0], "float32"),
        ("GivenTensorDoubleFill", [0.5, 2.0], "float64"),
        ("GivenTensorIntFill", [-1, 2], "int32"),
        ("GivenTensorInt64Fill", [1 << 40, 2], "int64"),
        ("GivenTensorInt16Fill", [-1, 2], "int16"),
        ("GivenTensorBoolFill", [0, 7], "bool"),
        ("GivenTensorStringFill", ["a", "bc"], "object"),
    ],
)
def test_lists_become_blobs_of_the_dtype_in_the_fills_name(type, values, dtype) -> None:
    expected = [text.encode() for text in values] if dtype == "object" else values
    np.testing.assert_array_equal(fill(type, values=values, shape=[2, 1]), np.array(expected, dtype).reshape(2, 1))


def test_the_plain_fill_takes_a_dtype_by_number_or_name() -> None:
    assert fill("GivenTensorFill", values=[1.0], shape=[1], dtype=13).dtype == np.float64
    assert fill("GivenTensorFill", values=[1], shape=[1], dtype="int64").dtype == np.int64
    with pytest.raises(ArgumentError, match="dtype must not be uint8"):
        fill("GivenTensorFill", values=[1], shape=[1], dtype=6)


@pytest.mark.parametrize(
    ("type", "arguments", "rule"),
    [
        ("GivenTensorIntFill", {"values": [1 << 40], "shape": [1]}, "1099511627776 does not fit into int32"),
        ("GivenTensorInt16Fill", {"values": [70000], "shape": [1]}, "70000 does not fit into int16"),
        ("GivenTensorIntFill", {"values": np.zeros(2, np.int64)}, "values must be int32, got int64"),
        ("GivenTensorStringFill", {"values": [1], "shape": [1]}, "list of strings, got ints"),
        ("GivenTensorByteStringToUInt8Fill", {"values": [1], "shape": [1]}, "must be a string or a tensor"),
        ("ConstantFill", {"extra_shape": [1]}, "need an input"),
        ("ConstantFill", {"value": "x", "shape": [1]}, "value"),
        ("ConstantFill", {"shape": [2], "dtype": "int32"}, "dtype"),
        ("DiagonalFill", {"shape": [3]}, "must have two or equal dimensions"),
        ("DiagonalFill", {"shape": [2, 3, 3]}, "equal dimensions"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(type, arguments, rule) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=rule):
        fill(type, **arguments)


def test_byte_strings_and_tensors_of_bytes_make_the_same_blob() -> None:
    for values in (b"\x00\xfe", [b"\x00\xfe"], np.array([0, 254], np.uint8)):
        np.testing.assert_array_equal(
            fill("GivenTensorByteStringToUInt8Fill", values=values, shape=[2, 1]), np.array([[0], [254]], np.uint8)
        )


def with_input(x, *more, constants=(), **arguments) -> np.ndarray:
    names = ["x", "v"][: 1 + len(more)]
    op = OperatorDef.of("ConstantFill", names, ["y"], **arguments)
    assert assert_engines_match_reference(op, [x, *more], constants=constants) == ["NUMPY"]
    return run_kernel(op, [x, *more], "NUMPY", constants)[0]


def test_an_input_gives_the_shape_or_holds_it() -> None:
    x = np.zeros((2, 3), np.int8)
    assert with_input(x, value=2.0).tolist() == [[2.0] * 3] * 2
    assert with_input(x, value=2, extra_shape=[4]).shape == (2, 3, 4)
    assert with_input(np.array([3, 1]), constants=(0,), input_as_shape=1, extra_shape=[2]).shape == (3, 1, 2)
    assert with_input(x, np.array([5], np.float32)).tolist() == [[5.0] * 3] * 2
    for bad, rule in ((np.array([3], np.int32), "vector of int64"), (np.array([-3]), "must not be negative")):
        with pytest.raises((ArgumentError, ShapeError), match=rule):
            with_input(bad, constants=(0,), input_as_shape=1)
    with pytest.raises(ArgumentError, match="either shape or an input"):
        with_input(x, shape=[2])
    with pytest.raises(ShapeError, match="second input must be one float32"):
        with_input(x, np.array([5]))


def test_sizes_are_checked_before_they_are_used() -> None:
    for type in ("ConstantFill", "RangeFill", "DiagonalFill", "UniformFill", "Float16ConstantFill"):
        with pytest.raises(ResourceError, match="more than the"):
            fill(type, shape=[1 << 40, 1 << 40])


def test_ranges_start_again_for_each_length() -> None:
    op = OperatorDef.of("LengthsRangeFill", ["x"], ["y"])
    assert run_kernel(op, [np.array([2, 0, 3], np.int32)], constants=(0,))[0].tolist() == [0, 1, 0, 1, 2]
    assert run_kernel(op, [np.zeros(0, np.int32)], constants=(0,))[0].size == 0
    with pytest.raises(ShapeError, match="must not be negative"):
        run_kernel(op, [np.array([2, -1], np.int32)], constants=(0,))


@pytest.mark.parametrize(
    ("shape", "ones"),
    [
        ([2, 3], [(0, 0), (1, 1)]),
        ([5, 2], [(0, 0), (1, 1), (3, 0), (4, 1)]),
        ([2, 2, 2], [(0, 0, 0), (1, 1, 1)]),
        ([0, 3], []),
    ],
)
def test_a_diagonal_starts_again_below_the_square(shape, ones) -> None:
    y = fill("DiagonalFill", shape=shape, value=1.0)
    assert y.shape == tuple(shape)
    assert [tuple(index) for index in np.argwhere(y).tolist()] == ones
