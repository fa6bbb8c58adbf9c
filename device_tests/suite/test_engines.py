"""Fast kernels against the reference kernel on this device, in sizes that divide neither blocks nor panels."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.netdef import OperatorDef

CONVOLUTIONS: Dict[str, Dict[str, Any]] = {
    "3x3": {"shape": (1, 19, 23, 21), "filters": (33, 19, 3, 3), "pad": 1},
    "3x3 stride 2": {"shape": (2, 13, 31, 30), "filters": (20, 13, 3, 3), "pad": 1, "stride": 2},
    "1x1": {"shape": (1, 67, 13, 11), "filters": (45, 67, 1, 1)},
    "3x3, whole tiles": {"shape": (2, 13, 12, 28), "filters": (20, 13, 3, 3), "pad": 1},
    "7x7 stride 2": {"shape": (1, 3, 41, 37), "filters": (16, 3, 7, 7), "pad": 3, "stride": 2},
    "depthwise": {"shape": (1, 17, 25, 39), "filters": (17, 1, 3, 3), "pad": 1, "group": 17},
    "grouped, dilated": {"shape": (1, 12, 19, 18), "filters": (18, 4, 3, 3), "pad": 2, "dilation": 2, "group": 3},
    "wide": {"shape": (1, 64, 25, 27), "filters": (64, 64, 3, 3), "pad": 1},
    "9x9": {"shape": (1, 17, 29, 33), "filters": (19, 17, 9, 9), "pad": 4},
    "5x5 by F(4x4)": {"shape": (1, 9, 19, 22), "filters": (11, 9, 5, 5), "pad": 2, "engine": "WINOGRAD:f4x4_5x5"},
    "depthwise, 13x13": {"shape": (1, 17, 25, 39), "filters": (17, 1, 13, 13), "pad": 6, "group": 17},
}


def random(shape: Any, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolution(name: str) -> Tuple[OperatorDef, List[Any], int]:
    """The operator, its operands, and the number of terms in its sums."""
    arguments = dict(CONVOLUTIONS[name])
    x, w = random(arguments.pop("shape"), 1), random(arguments.pop("filters"), 2)
    op = OperatorDef.of("Conv", ["x", "w", "b"], ["y"], kernel=w.shape[-1], **arguments)
    return op, [x, w, random(w.shape[:1], 3)], int(np.prod(w.shape[1:])) + 1


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    op, operands, terms = convolution(name)
    engines = assert_engines_match_reference(
        op,
        operands,
        terms=terms,
        constants=(1, 2),
        magnitude=4.0 * terms**0.5,
    )
    assert "IM2COL" in engines


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_between_tiles(name: str) -> None:
    op, operands, terms = convolution(name)
    expected = run_kernel(op, operands)[0]
    for option in tiled_options(op, operands, (1, 2)):
        assert_close(
            run_option(op, operands, option, (1, 2)),
            expected,
            terms=terms,
            magnitude=4.0 * terms**0.5,
            amplification=option.work.error,
            what=described(option),
        )


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("type", ["FC", "MatMul"])
def test_matrix_product(type: str, rows: int) -> None:
    x, w = random((rows, 130), 1), random((37, 130) if type == "FC" else (130, 37), 2)
    operands = [x, w, random(37, 3)] if type == "FC" else [x, w]
    op = OperatorDef.of(type, ["x", "w", "b"][: len(operands)], ["y"])
    assert assert_engines_match_reference(op, operands, terms=131, constants=(1, 2))


def test_eight_bit_convolution_is_exact() -> None:
    rng = np.random.default_rng(0)
    x, w = (
        rng.integers(0, 256, (1, 35, 13, 11)).astype(np.uint8),
        rng.integers(-128, 128, (21, 35, 3, 3)).astype(np.int8),
    )
    one, zero = np.float32(0.01), np.uint8(131)
    operands = [x, one, zero, w, one, np.int8(0), np.float32(0.2), zero, rng.integers(-999, 999, 21).astype(np.int32)]
    op = OperatorDef.of("QLinearConv", [f"x{i}" for i in range(9)], ["y"], domain="onnx", pads=[1, 1, 1, 1])
    assert assert_engines_match_reference(op, operands, constants=range(1, 9)) == ["INT8"]
