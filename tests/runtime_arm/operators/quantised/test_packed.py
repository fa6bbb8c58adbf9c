"""Weights that are stored in fewer bits: what they stand for, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.quantised.halves import halves, joined_halves
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


def evaluated(op: OperatorDef, *inputs: np.ndarray) -> np.ndarray:
    value = infer_operator(op, [TensorSpec.known(x) for x in inputs])[1][0].value
    assert value is not None
    return value


def test_two_numbers_share_a_byte_the_first_in_the_low_half() -> None:
    assert halves(np.array([0x21, 0xF0], np.uint8)).tolist() == [1, 2, 0, 15]
    numbers = np.arange(16, dtype=np.uint8)
    assert halves(joined_halves(numbers)).tolist() == numbers.tolist()


def test_blocks_are_scaled_one_by_one_and_fill_the_shape() -> None:
    op = OperatorDef.of("UnpackBlocks", ["q", "s"], ["w"], domain="armnet", shape=[3, 2], block_size=4)
    packed = np.array([[0x98, 0x07], [0xFA, 0x88]], np.uint8)  # 8 9 7 0 | 10 15 8 8
    actual = evaluated(op, packed, np.array([2, 0.5], np.float16))
    np.testing.assert_array_equal(actual, np.array([[0, 2], [-2, -16], [1, 3.5]], np.float32))


def test_a_palette_is_looked_up() -> None:
    op = OperatorDef.of("UnpackPalette", ["q", "p"], ["w"], domain="armnet", shape=[3])
    palette = np.arange(16, dtype=np.float32) ** 2
    np.testing.assert_array_equal(evaluated(op, np.array([0x32, 0x0F], np.uint8), palette), [4, 9, 225])


def test_bfloat16_is_the_upper_half_of_a_float() -> None:
    op = OperatorDef.of("UnpackBfloat16", ["h"], ["w"], domain="armnet")
    np.testing.assert_array_equal(evaluated(op, np.array([0x3F80, 0xC000, 0x7F80], np.uint16)), [1, -2, np.inf])


@pytest.mark.parametrize(
    ("type", "arguments", "inputs"),
    [
        ("UnpackBlocks", {"shape": [64]}, [np.zeros((1, 16), np.uint8), np.zeros(2, np.float16)]),
        ("UnpackBlocks", {"shape": [32], "block_size": 3}, [np.zeros((1, 16), np.uint8), np.zeros(1, np.float16)]),
        ("UnpackBlocks", {"shape": [32]}, [np.zeros((1, 16), np.uint8), np.zeros(1, np.float32)]),
        ("UnpackBlocks", {"shape": [-32]}, [np.zeros((1, 16), np.uint8), np.zeros(1, np.float16)]),
        ("UnpackBlocks", {"shape": [1 << 40]}, [np.zeros((1, 16), np.uint8), np.zeros(1, np.float16)]),
        ("UnpackPalette", {"shape": [5]}, [np.zeros(2, np.uint8), np.zeros(16, np.float32)]),
        ("UnpackPalette", {"shape": [4]}, [np.zeros(2, np.uint8), np.zeros(15, np.float32)]),
        ("UnpackBfloat16", {}, [np.zeros(2, np.int16)]),
    ],
)
def test_what_does_not_fit_is_refused(type: str, arguments: dict, inputs: list) -> None:
    names = [f"x{index}" for index in range(len(inputs))]
    with pytest.raises(ArmnetError, match=type):
        evaluated(OperatorDef.of(type, names, ["w"], domain="armnet", **arguments), *inputs)
