"""Numbers that a file holds in fewer bytes: which ones, in which form, and that they come back bit for bit."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from runtime_arm.errors import FormatError
from runtime_arm.netdef import Argument, NetDef, OperatorDef
from runtime_arm.netdef.messages import message_class
from runtime_arm.netdef.narrow import MOST_NARROWED, stored_nbytes
from tests.runtime_arm.netdef import protobuf_bytes as pb

FLOAT, INT32, BFLOAT16, NARROW = 1, 2, 1, 2
TINY, LARGE_HALF = 2.0**-24, 65504.0


def written(array: Any) -> Any:
    """The TensorProto that a file holds, after the array was read from it again, bit for bit."""
    net = NetDef(op=(OperatorDef("Op", arg=(Argument.of("x", array),)),), arg=(Argument.of("narrow_tensors", 1),))
    assert NetDef.from_bytes(net.to_bytes()) == net
    message = message_class("NetDef").FromString(net.to_bytes()).op[0].arg[0].t
    assert len(message.raw_data) == stored_nbytes(array)
    return message


def read(*fields: bytes) -> Any:
    return NetDef.from_bytes(pb.tensor(*fields)).op[0].arg[0].t


@given(npst.arrays(np.float16, st.integers(4, 40)))
def test_floats_that_are_halves_take_two_bytes(halves: np.ndarray) -> None:
    array = halves.astype(np.float32)
    if np.isnan(array).any():
        written(array)
        return
    message = written(array)
    assert (message.data_type, len(message.raw_data)) == (FLOAT, 2 * array.size)
    assert message.data_format == NARROW
    assert message.raw_data == halves.astype("<f2").tobytes()


def test_floats_that_are_upper_halves_take_two_bytes() -> None:
    array = np.array([1e-30, -3e38, 0.0, -0.0], np.float32)
    array = (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    message = written(array)
    assert (message.data_type, message.data_format, len(message.raw_data)) == (FLOAT, BFLOAT16, 8)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0, TINY, -LARGE_HALF])
def test_odd_numbers_come_back(value: float) -> None:
    assert written(np.array([1.0, value, 2.0], np.float32)).data_format == NARROW


@pytest.mark.parametrize("value", [0.1, 65519.9, 2.0**-25 * 1.001])
def test_other_floats_stay_as_they_are(value: float) -> None:
    assert not written(np.array([1.0, value, 2.0], np.float32)).HasField("data_format")


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=2, max_size=30), st.integers(0, 31))
def test_integers_take_as_many_bytes_as_the_largest_needs(values: List[int], shift: int) -> None:
    array = np.array(values, np.int64) >> shift
    size = next(size for size in (1, 2, 3, 4) if -(256**size) // 2 <= array.min() and array.max() < 256**size // 2)
    message = written(array.astype(np.int32))
    assert (message.data_type, len(message.raw_data)) == (INT32, size * len(values))
    assert message.data_format == (NARROW if size < 4 else 0)
    assert message.raw_data == b"".join(int(value).to_bytes(size, "little", signed=True) for value in array)


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint32", "int16", "uint8"])
def test_other_types_stay_as_they_are(dtype: str) -> None:
    assert len(written(np.ones(10, dtype)).raw_data) == 10 * np.dtype(dtype).itemsize


def test_large_tensors_are_used_where_the_file_is_mapped() -> None:
    count = MOST_NARROWED // 4
    assert len(written(np.ones(count, np.float32)).raw_data) == 2 * count
    assert len(written(np.ones(count + 1, np.float32)).raw_data) == 4 * (count + 1)


def test_nets_that_do_not_ask_for_it_hold_numbers_as_they_are() -> None:
    net = NetDef(op=(OperatorDef("Op", arg=(Argument.of("x", np.ones(9, np.float32)),)),))
    (tensor,) = (arg.t for arg in message_class("NetDef").FromString(net.to_bytes()).op[0].arg)
    assert tensor.raw_data == np.ones(9, "<f4").tobytes()
    assert not tensor.HasField("data_format")


def test_shapes_survive() -> None:
    for shape in ((2, 3, 1), (1, 2), (4,)):
        written(np.arange(np.prod(shape), dtype=np.int32).reshape(shape))
        written(np.ones(shape, np.float32))
    written(np.ones((8, 9), np.float32)[::2, ::3])
    written(np.zeros((0, 3), np.int32))


@pytest.mark.parametrize("raw", [b"", b"123", b"12345", b"123456789abc"])
def test_bytes_that_hold_no_such_numbers_are_refused(raw: bytes) -> None:
    with pytest.raises(FormatError, match="integers of one to three bytes"):
        read(pb.packed(1, [2]), pb.integer(2, INT32), pb.integer(15, NARROW), pb.content(13, raw))


def test_halves_that_are_too_few_are_refused() -> None:
    with pytest.raises(FormatError, match="need 3 elements"):
        read(pb.packed(1, [3]), pb.integer(2, FLOAT), pb.integer(15, NARROW), pb.content(13, bytes(4)))
    with pytest.raises(FormatError, match="no multiple of 2"):
        read(pb.packed(1, [3]), pb.integer(2, FLOAT), pb.integer(15, NARROW), pb.content(13, bytes(5)))


def test_a_list_of_floats_may_be_a_tensor_of_one_dimension() -> None:
    op = OperatorDef.of("Op", [], [], scales=np.array([0.5, 3e-5], np.float32), matrix=np.ones((2, 2), np.float32))
    assert op.get_floats("scales") == (0.5, float(np.float32(3e-5)))
    with pytest.raises(Exception, match="must be given as a list of floats, got a tensor"):
        op.get_floats("matrix")
