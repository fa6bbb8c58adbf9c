"""Detectron's operators (grouped softmax, position-sensitive pool, cuts) against loops and identities."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same
from tests.support.operands import caffe2, random


def test_each_group_of_channels_sums_to_one() -> None:
    x = random((2, 6, 2, 3))
    (y,) = run_kernel(caffe2("GroupSpatialSoftmax", "X", num_classes=3), [x])
    expected = np.empty(x.shape)
    for n, group, i, j in np.ndindex(2, 2, 2, 3):
        powers = np.exp(x[n, 3 * group : 3 * group + 3, i, j].astype(np.float64))
        expected[n, 3 * group : 3 * group + 3, i, j] = powers / powers.sum()
    assert_close(y, expected.astype(np.float32), terms=3)


def test_the_pool_returns_the_channel_of_each_element() -> None:
    x, rois = random((1, 8, 6, 6)), np.array([[0, 0, 0, 5, 5], [0, 2, 2, 3, 5]], np.float32)
    arguments = {"output_dim": 2, "group_size": 2, "spatial_scale": 1.0}
    y, channels = run_kernel(caffe2("PSRoIPool", "X R", "Y c").with_args(**arguments), [x, rois])
    caffe = OperatorDef.of("PSROIPooling", ["X", "R"], ["Y"], domain="caffe").with_args(**arguments)
    assert_same(y, run_kernel(caffe, [x, rois])[0])
    assert_same(channels, np.stack([np.arange(8, dtype=np.int32).reshape(2, 2, 2)] * 2))


def test_images_are_cut_to_the_size_of_others() -> None:
    x = random((2, 3, 5, 6))
    assert_same(run_kernel(caffe2("SpatialNarrowAs", "X L"), [x, random((2, 1, 4, 2))])[0], x[:, :, :4, :2])
    with pytest.raises(OperatorError, match="must not be larger"):
        run_kernel(caffe2("SpatialNarrowAs", "X L"), [x, random((2, 1, 6, 2))])


def test_refuses_other_groups() -> None:
    with pytest.raises(OperatorError, match=r"A \* 4"):
        run_kernel(caffe2("GroupSpatialSoftmax", "X", num_classes=4), [random((2, 6, 2, 3))])
