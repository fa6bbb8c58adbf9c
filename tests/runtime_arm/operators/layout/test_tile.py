"""Tiles and broadcasting: engines, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError, ResourceError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4))
@settings(max_examples=80)
def test_onnx_tile_engines_agree(sizes: Any) -> None:
    x = np.arange(np.prod([n for n, _ in sizes], dtype=int)).reshape([n for n, _ in sizes])
    repeats = np.array([times for _, times in sizes], np.int64)
    op = OperatorDef.of("Tile", ["X", "r"], ["Y"], domain="onnx")
    assert assert_engines_match_reference(op, [x, repeats], constants=(1,)) == ["NUMPY"]


@given(st.lists(st.sampled_from([1, 2, 3]), max_size=3), st.integers(0, 2), st.randoms())
@settings(max_examples=80)
def test_expand_broadcasts_both_ways(shape: List[int], more: int, random: Any) -> None:
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    wanted = [2] * more + [random.choice([1, n]) if n > 1 else random.randint(1, 3) for n in shape]
    for op in (OperatorDef.of("Expand", ["X", "s"], ["Y"]), OperatorDef.of("Expand", ["X", "s"], ["Y"], domain="onnx")):
        inputs = [x, np.array(wanted, np.int64)]
        assert assert_engines_match_reference(op, inputs, constants=(1,)) == ["NUMPY"]
        assert_same(run_kernel(op, inputs, "NUMPY", constants=(1,))[0], x * np.ones(wanted, np.float32))


def test_expand_with_less_than_one_differs_between_caffe2_and_onnx() -> None:
    inputs = [np.ones((1, 3), np.float32), np.array([0, 1], np.int64)]
    for domain, shape in (("", (1, 3)), ("onnx", (0, 3))):
        op = OperatorDef.of("Expand", ["X", "s"], ["Y"], domain=domain)
        assert run_kernel(op, inputs, constants=(1,))[0].shape == shape


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (OperatorDef.of("Tile", ["X"], ["Y"], tiles=-1, axis=0), [], "must not be negative"),
        (OperatorDef.of("Tile", ["X"], ["Y"], tiles=2, axis=2), [], "axis 2 is out of range"),
        (OperatorDef.of("Tile", ["X", "t"], ["Y"], axis=0), [np.ones(2, np.int32)], "vector of one integer"),
        (OperatorDef.of("Tile", ["X", "r"], ["Y"], domain="onnx"), [np.ones(1, np.int64)], "one per dimension"),
        (OperatorDef.of("Expand", ["X", "s"], ["Y"]), [np.array([3], np.int32)], "must be int64"),
        (OperatorDef.of("Expand", ["X", "s"], ["Y"], domain="onnx"), [np.array([2, 2])], "cannot be broadcast"),
    ],
)
def test_refuses(op: OperatorDef, inputs: List[Any], rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros((2, 3), np.float32), *inputs], constants=(1,))


@pytest.mark.parametrize("type", ["Tile", "Expand"])
def test_absurd_sizes_are_refused_before_allocating(type: str) -> None:
    op = OperatorDef.of(type, ["X", "s"], ["Y"], domain="onnx")
    with pytest.raises(ResourceError, match="bytes"):
        run_kernel(op, [np.zeros((1, 1), np.float32), np.array([2**40, 2**40])], constants=(1,))


def test_numpy_tile_repeats_along_every_dimension() -> None:
    x, repeats = np.arange(6).reshape(2, 3), np.array([2, 3], np.int32)
    op = OperatorDef.of("NumpyTile", ["X", "r"], ["Y"])
    assert_same(run_kernel(op, [x, repeats], constants=(1,))[0], np.concatenate([np.concatenate([x] * 3, 1)] * 2))
    assert assert_engines_match_reference(op, [x, repeats], constants=(1,)) == ["NUMPY"]
    with pytest.raises(OperatorError, match="one per dimension"):
        run_kernel(op, [x, repeats[:1]], constants=(1,))
