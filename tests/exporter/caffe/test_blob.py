"""Caffe's Blob: shapes, memory, legacy names of dimensions, BlobProtos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from exporter.caffe.blob import MAX_AXES, Blob
from exporter.caffe.prototxt import message_class
from runtime_arm.errors import FormatError, UsageError


def test_reshape_reuses_memory_until_it_is_too_small() -> None:
    blob = Blob([2, 3, 4])
    blob.data[...] = np.arange(24).reshape(2, 3, 4)
    memory = blob.data
    blob.reshape([3, 4])
    assert (blob.capacity, blob.count()) == (24, 12)
    assert np.shares_memory(blob.data, memory)
    blob.reshape([4, 6])
    np.testing.assert_array_equal(blob.data.reshape(-1), np.arange(24))
    blob.reshape([5, 5])
    assert blob.capacity == 25
    assert not np.shares_memory(blob.data, memory)
    assert not blob.data.any()


def test_missing_legacy_dimensions_are_one() -> None:
    blob = Blob([2, 3])
    assert (blob.num, blob.channels, blob.height, blob.width) == (2, 3, 1, 1)
    assert [blob.legacy_shape(axis) for axis in range(-4, 0)] == [1, 1, 2, 3]
    with pytest.raises(UsageError):
        Blob([1] * 5).legacy_shape(0)


def test_axes_and_offsets() -> None:
    blob = Blob([2, 3, 4, 5])
    assert [blob.canonical_axis_index(axis) for axis in (0, 3, -1, -4)] == [0, 3, 3, 0]
    assert blob.offset(1, 2, 3, 4) == blob.offset([1, 2, 3, 4]) == 119
    assert (blob.offset(1), blob.offset(0, 1), blob.count(1), blob.count(1, 3)) == (60, 20, 60, 12)
    blob.data[1, 2, 3, 4] = 7
    assert (blob.data_at(1, 2, 3, 4), blob.diff_at(1, 2, 3, 4)) == (7, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda b: b.reshape([1] * (MAX_AXES + 1)),
        lambda b: b.reshape([-1]),
        lambda b: b.reshape([2**20, 2**20]),
        lambda b: b.canonical_axis_index(2),
        lambda b: b.offset(2, 0),
        lambda b: b.count(1, 3),
    ],
)
def test_mistakes_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        wrong(Blob([2, 3]))


def test_update_subtracts_gradients() -> None:
    blob = Blob([MAX_AXES // 16] * 3)
    blob.data[...], blob.diff[...] = 3, 1
    blob.update()
    assert (blob.data == 2).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("legacy", [False, True])
def test_content_survives_a_blob_proto(dtype: Any, legacy: bool) -> None:
    blob = Blob([2, 3], dtype)
    blob.data[...], blob.diff[...] = np.arange(6).reshape(2, 3), 1
    proto = blob.to_proto(write_diff=True, legacy=legacy)
    assert blob.shape_equals(proto)
    copy = Blob((), dtype)
    copy.from_proto(proto)
    assert copy.shape == ((1, 1, 2, 3) if legacy else (2, 3))
    np.testing.assert_array_equal(copy.data.reshape(2, 3), blob.data)
    np.testing.assert_array_equal(copy.diff.reshape(2, 3), blob.diff)


def test_a_blob_proto_with_a_false_shape_takes_no_memory() -> None:
    proto = message_class("BlobProto")(data=[1, 2, 3])
    proto.shape.dim.extend([2**40, 2**40])
    with pytest.raises(FormatError, match="does not fit its 3 values"):
        Blob().from_proto(proto)
    with pytest.raises(FormatError, match="another"):
        Blob([3]).from_proto(proto, reshape=False)
