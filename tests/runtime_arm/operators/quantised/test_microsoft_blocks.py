"""onnxruntime's weights of few bits in blocks against onnxruntime; every engine against the reference; refusals."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, supporting_engines
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.netdef import OperatorDef
from tests.support.onnx_nodes import onnxruntime_outputs

DOMAIN = "com.microsoft"


def operator(type: str, operands: List[Any], **arguments: Any) -> OperatorDef:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    return OperatorDef.of(type, names, ["y"], domain=DOMAIN, **arguments)


def product(bits: int, shape: tuple[int, ...], depth: int, columns: int, zero: str, dtype: Any = np.float32) -> Any:
    """A MatMulNBits with its operands; blocks of 16."""
    rng = np.random.default_rng(bits)
    blocks = -(-depth // 16)
    weights = rng.integers(0, 256, (columns, blocks, 2 * bits)).astype(np.uint8)
    operands: List[Any] = [rng.standard_normal((*shape, depth)), weights, rng.uniform(0.01, 0.1, (columns, blocks))]
    operands[0], operands[2] = operands[0].astype(dtype), operands[2].astype(dtype)
    if zero == "packed":
        operands.append(rng.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8))
    elif zero == "floats":
        operands.append(rng.uniform(0, 1 << bits, (columns, blocks)).astype(dtype))
    return operator("MatMulNBits", operands, K=depth, N=columns, bits=bits, block_size=16), operands


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
@pytest.mark.parametrize(("depth", "columns"), [(16, 3), (100, 8), (700, 400)])
@pytest.mark.parametrize("zero", ["", "packed"])
def test_mat_mul_n_bits(bits: int, shape: tuple[int, ...], depth: int, columns: int, zero: str) -> None:
    op, operands = product(bits, shape, depth, columns, zero)
    assert assert_engines_match_reference(op, operands, constants=[1, 2, 3], terms=40 * depth) == ["NUMPY"]
    if shape:
        expected = onnxruntime_outputs(op, operands, [np.float32])[0]
        assert_close(run_kernel(op, operands)[0], expected, terms=40 * depth)


@pytest.mark.parametrize("bits", [2, 4])
def test_bias_and_zero_points_that_are_floats(bits: int) -> None:
    op, operands = product(bits, (3,), 64, 9, "floats")
    operands += [None, np.linspace(-9, 9, 9, dtype=np.float32)]
    op = op.replace(input=(*op.input, "", "bias"))
    assert assert_engines_match_reference(op, operands, constants=[1, 2, 3, 5], terms=4000) == ["NUMPY"]
    assert_close(run_kernel(op, operands)[0], onnxruntime_outputs(op, operands, [np.float32])[0], terms=4000)


def test_accuracy_level_4_lets_onnxruntime_round_to_8_bits_and_armnet_does_not() -> None:
    op, operands = product(4, (5,), 64, 9, "")
    blocks = operands[0].reshape(5, 4, 16)
    scales = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    steps = np.rint(blocks / scales) * scales
    level = op.with_args(accuracy_level=4)
    exact = run_kernel(op, operands)[0]
    np.testing.assert_array_equal(run_kernel(level, operands)[0], exact)
    on_steps = run_kernel(op, [steps.reshape(5, 64).astype(np.float32), *operands[1:]])[0]
    assert_close(onnxruntime_outputs(level, operands, [np.float32])[0], on_steps, terms=40 * 64)


def test_half_precision() -> None:
    op, operands = product(4, (3,), 64, 9, "packed", np.float16)
    assert assert_engines_match_reference(op, operands, constants=[1, 2, 3], terms=64) == ["NUMPY"]


def test_blocks_in_another_order() -> None:
    """With zero points as floats: with packed ones, onnxruntime ignores them here."""
    op, operands = product(4, (3,), 64, 9, "floats")
    groups = np.random.default_rng(0).permutation(np.arange(64) // 16).astype(np.int32)
    op = op.replace(input=(*op.input, "groups"))
    assert supporting_engines(op, [*operands, groups], constants=[1, 2, 3, 4]) == []
    expected = onnxruntime_outputs(op, [*operands, groups], [np.float32])[0]
    assert_close(run_kernel(op, [*operands, groups])[0], expected, terms=4000)


def test_refusals_of_products() -> None:
    operands = product(4, (3,), 64, 9, "")[1]
    with pytest.raises(ArgumentError, match="bits must be 2, 4 or 8"):
        run_kernel(operator("MatMulNBits", operands, K=64, N=9, bits=3, block_size=16), operands)
    with pytest.raises(ArgumentError, match="block_size a power of 2 from 16 on"):
        run_kernel(operator("MatMulNBits", operands, K=64, N=9, block_size=24), operands)
    with pytest.raises(ShapeError, match=r"B must be uint8 \[9, 2, 16\]"):
        run_kernel(operator("MatMulNBits", operands, K=64, N=9, block_size=32), operands)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("shape", [(7,), (2, 3), ()])
def test_gather_block_quantized(bits: int, zero: bool, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(bits)
    data = rng.integers(0, 256, (9, 64 * bits // 8)).astype(np.uint8)
    indices = np.asarray(rng.integers(-9, 9, shape), np.int64)
    scales = rng.uniform(0.01, 0.1, (9, 4)).astype(np.float32)
    points: Optional[Any] = rng.integers(0, 256, (9, 4 * bits // 8)).astype(np.uint8) if zero else None
    operands = [data, indices, scales, *([points] if zero else [])]
    op = operator("GatherBlockQuantized", operands, bits=bits, block_size=16)
    expected = onnxruntime_outputs(op.replace(input=op.input), operands, [np.float32])[0]
    assert_close(run_kernel(op, operands)[0], expected, terms=2)


def test_an_index_out_of_range_gives_zeros() -> None:
    operands = [np.full((3, 8), 0xFF, np.uint8), np.array([0, 3, -4, -3]), np.ones((3, 1), np.float32)]
    y = run_kernel(operator("GatherBlockQuantized", operands, block_size=16), operands)[0]
    np.testing.assert_array_equal(y, np.repeat([[7], [0], [0], [7]], 16, 1))
