"""Weights of 4-bit integers whose scales take a byte each: what they stand for, odd sizes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.quantised.int4 import BIAS, BLOCK, MOST_EXPONENT, scales_of
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


def unpacking(*shape: int, exponent: int = BIAS) -> OperatorDef:
    return OperatorDef.of("UnpackInt4", ["q"], ["w"], domain="armnet", shape=list(shape), exponent=exponent)


def evaluated(op: OperatorDef, packed: np.ndarray) -> np.ndarray:
    value = infer_operator(op, [TensorSpec.known(packed)])[1][0].value
    assert value is not None
    return value


def test_a_scale_is_a_float_of_a_byte() -> None:
    scales = scales_of(unpacking(1, exponent=BIAS - 20))
    assert scales.dtype == np.float32
    assert scales[[0, 1, 7, 8, 127]].tolist() == [8 / 2**20, 9 / 2**20, 15 / 2**20, 16 / 2**20, 15 / 2**5]
    assert (np.diff(scales[:128]) > 0).all()
    np.testing.assert_array_equal(scales[128:], -scales[:128])


def test_the_scales_of_blocks_stand_behind_the_numbers() -> None:
    op = unpacking(35, exponent=BIAS - 3)  # a byte 0 means 8 / 8, 8 twice that, 12 three times
    packed = np.full(18 + 2, 0x88, np.uint8)
    packed[[0, 1, 16, 17]] = 0x79, 0x0F, 0xF9, 0x17  # 9 7 15 0 ... 8 | 9 15 7, and one that is not used
    packed[18:] = 8, 12 + 128
    expected = [2, -2, 14, -16, *[0] * 28, -3, -21, 3]
    np.testing.assert_array_equal(evaluated(op, packed), np.array(expected, np.float32))


@given(st.lists(st.integers(0, 40), max_size=3), st.integers(0, MOST_EXPONENT), st.integers(0, 10**6))
def test_any_bytes_are_unpacked_as_the_reference_does(shape: list, exponent: int, seed: int) -> None:
    size = math.prod(shape)
    op = unpacking(*shape, exponent=exponent)
    packed = np.random.default_rng(seed).integers(0, 256, -(-size // 2) - (-size // BLOCK)).astype(np.uint8)
    actual, (expected,) = evaluated(op, packed), lookup(op).evaluate(op, [packed])
    np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))
    assert np.isfinite(actual).all()
    assert (np.abs(actual[actual != 0]) >= np.finfo(np.float32).tiny).all()


@pytest.mark.parametrize(
    ("arguments", "nbytes", "message"),
    [
        ({"shape": [64]}, 33, "32 [+] 2 bytes are needed"),
        ({"shape": [64]}, 35, "32 [+] 2 bytes are needed"),
        ({"shape": [1 << 40]}, 34, "bytes are needed"),
        ({"shape": [-32]}, 17, "none negative"),
        ({"shape": [32], "exponent": MOST_EXPONENT + 1}, 17, "exponent must be from"),
        ({"shape": [32], "exponent": -1}, 17, "exponent must be from"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict, nbytes: int, message: str) -> None:
    op = OperatorDef.of("UnpackInt4", ["q"], ["w"], domain="armnet", **{"exponent": BIAS, **arguments})
    with pytest.raises(ArmnetError, match=f"UnpackInt4.*{message}"):
        evaluated(op, np.zeros(nbytes, np.uint8))


def test_an_exponent_is_needed_and_scales_are_bytes() -> None:
    with pytest.raises(ArmnetError, match="exponent"):
        evaluated(OperatorDef.of("UnpackInt4", ["q"], ["w"], domain="armnet", shape=[32]), np.zeros(17, np.uint8))
    with pytest.raises(ArmnetError, match="UnpackInt4"):
        evaluated(unpacking(32), np.zeros(17, np.int8))
