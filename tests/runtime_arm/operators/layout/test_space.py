"""Exchanging space, depth and batch; columns: inverses, engines, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same


@given(
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 3),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from(["DCR", "CRD"]),
)
@settings(max_examples=60)
def test_space_to_depth_undoes_depth_to_space(block: int, n: int, channels: int, image: Any, mode: str) -> None:
    x = np.arange(n * channels * block**2 * image[0] * image[1]).reshape(n, channels * block**2, *image)
    wide_op = OperatorDef.of("DepthToSpace", ["X"], ["Y"], domain="onnx", blocksize=block, mode=mode)
    assert assert_engines_match_reference(wide_op, [x]) == ["NUMPY"]
    (wide,) = run_kernel(wide_op, [x], "NUMPY")
    deep_op = OperatorDef.of("SpaceToDepth", ["X"], ["Y"], domain="onnx", blocksize=block, mode=mode)
    assert assert_engines_match_reference(deep_op, [wide]) == ["NUMPY"]
    assert_same(run_kernel(deep_op, [wide], "NUMPY")[0], x)


@given(st.integers(1, 3), st.integers(0, 2), st.integers(0, 2), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=60)
def test_batch_to_space_undoes_space_to_batch(block: int, pad: int, top: int, rows: int, columns: int) -> None:
    height, width = rows * block - pad - top, columns * block - 2 * pad
    if height < 1 or width < 1:
        return
    x = np.random.default_rng(0).standard_normal((2, 3, height, width)).astype(np.float32)
    arguments = {"block_size": block, "pad": pad, "pad_t": top}
    there, back = (OperatorDef.of(type, ["X"], ["Y"], **arguments) for type in ("SpaceToBatch", "BatchToSpace"))
    assert assert_engines_match_reference(there, [x]) == ["NUMPY"]
    (batches,) = run_kernel(there, [x], "NUMPY")
    assert assert_engines_match_reference(back, [batches]) == ["NUMPY"]
    assert_same(run_kernel(back, [batches], "NUMPY")[0], x)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.booleans())
@settings(max_examples=80)
def test_col2im_is_the_adjoint_of_im2col(kernel: int, stride: int, dilation: int, pad: int, last: bool) -> None:
    draw = np.random.default_rng(kernel + 10 * stride)
    x = draw.integers(-4, 5, (2, 6, 7, 3) if last else (2, 3, 6, 7)).astype(np.float32)
    arguments: Any = {
        "kernel_h": kernel,
        "kernel_w": 2,
        "stride": stride,
        "dilation": dilation,
        "pad": pad,
        "order": "NHWC" if last else "NCHW",
    }
    there = OperatorDef.of("Im2Col", ["X"], ["Y"], **arguments)
    assert assert_engines_match_reference(there, [x]) == ["NUMPY"]
    (columns,) = run_kernel(there, [x], "NUMPY")
    other = draw.integers(-4, 5, columns.shape).astype(np.float32)
    back = OperatorDef.of("Col2Im", ["C", "X"], ["Y"], **arguments)
    assert assert_engines_match_reference(back, [other, x], terms=kernel * 2) == ["NUMPY"]
    assert float((columns * other).sum()) == float((x * run_kernel(back, [other, x], "NUMPY")[0]).sum())


DEEP = OperatorDef.of("DepthToSpace", ["X"], ["Y"], domain="onnx", blocksize=2)


@pytest.mark.parametrize(
    ("op", "shape", "rule"),
    [
        (DEEP, (1, 6, 2, 2), "divisible by 4"),
        (DEEP.with_args(blocksize=0), (1, 4, 2, 2), "blocksize must be positive"),
        (DEEP.with_args(mode="RCD"), (1, 4, 2, 2), "mode must be"),
        (OperatorDef.of("SpaceToDepth", ["X"], ["Y"], domain="onnx", blocksize=2), (1, 4, 2, 3), "divisible by 2"),
        (OperatorDef.of("SpaceToBatch", ["X"], ["Y"]), (1, 4, 2, 3), "divisible by block_size 2"),
        (OperatorDef.of("SpaceToBatch", ["X"], ["Y"], pad=-1), (1, 4, 4, 4), "must not be negative"),
        (OperatorDef.of("BatchToSpace", ["X"], ["Y"]), (3, 4, 2, 2), "divisible by 4"),
        (OperatorDef.of("BatchToSpace", ["X"], ["Y"], pad=3), (4, 4, 2, 2), "larger than the image"),
        (OperatorDef.of("Im2Col", ["X"], ["Y"]), (1, 2, 4, 4), "must be at least 1"),
        (OperatorDef.of("Im2Col", ["X"], ["Y"], kernel=5, pad=2), (1, 2, 4, 4), r"spans \[5, 5\] pixels"),
        (OperatorDef.of("Im2Col", ["X"], ["Y"], kernel=2), (2, 4, 4), "four dimensions"),
    ],
)
def test_refuses(op: OperatorDef, shape: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run_kernel(op, [np.zeros(shape, np.float32)])
