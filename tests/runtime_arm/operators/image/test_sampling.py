"""GridSample, AffineGrid, DFT, STFT, mel weights: compared with onnxruntime, identities, refusals."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ArgumentError, ShapeError
from tests.support.onnx_nodes import onnxruntime_outputs
from tests.support.operands import onnx, random


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample_agrees_with_onnxruntime(mode: str, padding: str, corners: int) -> None:
    op = onnx("GridSample", "X grid", mode=mode, padding_mode=padding, align_corners=corners)
    inputs = [random((2, 3, 5, 4)), (1.5 * random((2, 6, 7, 2), 1)).clip(-3, 3)]
    (expected,) = onnxruntime_outputs(op, inputs, [np.float32])
    assert_close(run_kernel(op, inputs)[0], expected, terms=256, magnitude=np.abs(inputs[0]).max())


def test_grid_sample_by_the_identity_is_the_image() -> None:
    x = random((2, 3, 4, 5, 6))
    theta = np.tile(np.eye(3, 4, dtype=np.float32), (2, 1, 1))
    size = np.array(x.shape)
    for corners in (0, 1):
        (grid,) = run_kernel(onnx("AffineGrid", "theta size", align_corners=corners), [theta, size], constants=[1])
        (y,) = run_kernel(onnx("GridSample", "X grid", align_corners=corners), [x, grid])
        assert_close(y, x, terms=8)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_nan_or_infinite_lie_outside(padding: str) -> None:
    x, grid = np.ones((1, 1, 2, 2), np.float32), np.float32([[[[np.nan, np.inf], [-np.inf, 1e38]]]])
    (y,) = run_kernel(onnx("GridSample", "X grid", padding_mode=padding, mode="nearest"), [x, grid])
    np.testing.assert_array_equal(y.ravel(), [0, 0] if padding == "zeros" else [1, 1])


@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("axis", [0, -2])
def test_transforms_back_and_forth(length: Any, axis: int) -> None:
    x = random((6, 5, 2))
    n = x.shape[axis] if length is None else length
    operands = [None if length is None else np.array(length), np.array(axis)]
    (forth,) = run_kernel(onnx("DFT", "x n a"), [x, *operands], constants=[1, 2])
    (back,) = run_kernel(onnx("DFT", "x n a", inverse=1), [forth, None, operands[1]], constants=[1, 2])
    kept = min(n, x.shape[axis])
    assert_close(np.take(back, range(kept), axis), np.take(x, range(kept), axis), terms=16)
    real = x[..., :1]
    (half,) = run_kernel(onnx("DFT", "x n a", onesided=1), [real, *operands], constants=[1, 2])
    (whole,) = run_kernel(onnx("DFT", "x n a"), [real, *operands], constants=[1, 2])
    assert_close(half, np.take(whole, range(n // 2 + 1), axis))
    inverse = onnx("DFT", "x n a", inverse=1, onesided=1)
    (again,) = run_kernel(inverse, [half, np.array(n), operands[1]], constants=[1, 2])
    assert_close(np.take(again, range(kept), axis), np.take(real, range(kept), axis), terms=16)


def test_stft_of_complex_numbers_is_the_dft_of_each_frame() -> None:
    x, window = random((1, 10, 2)), np.abs(random((4,), 1))
    (y,) = run_kernel(onnx("STFT", "x s w", onesided=0), [x, np.array(3), window], constants=[1])
    for frame in range(3):
        part = x[:, 3 * frame : 3 * frame + 4] * window[:, None]
        assert_close(y[:, frame], run_kernel(onnx("DFT", "x"), [part])[0], terms=4)


MEL = [np.array(n) for n in (8, 16, 8192)]
MEL_MATRIX = onnx("MelWeightMatrix", "m n r l u")
REFUSALS: Dict[str, Any] = {
    "mode must be one of": (
        ArgumentError,
        onnx("GridSample", "X g", mode="bilinear"),
        [random((1, 1, 2, 2)), random((1, 2, 2, 2))],
    ),
    "as many dimensions": (ShapeError, onnx("GridSample", "X g"), [random((1, 1, 2, 2)), random((1, 2, 2))]),
    r"the grid must be \(N": (ShapeError, onnx("GridSample", "X g"), [random((1, 1, 2, 2)), random((2, 2, 2, 2))]),
    "no pixels": (ShapeError, onnx("GridSample", "X g"), [random((1, 1, 0, 2)), random((1, 2, 2, 2))]),
    "theta must be": (ShapeError, onnx("AffineGrid", "t s"), [random((2, 2, 3)), np.array([1, 1, 4, 4])]),
    "cannot be transformed": (ShapeError, onnx("DFT", "x - a"), [random((2, 3, 1)), None, np.array(2)]),
    "must be positive, got 0": (ShapeError, onnx("DFT", "x n"), [random((2, 3, 1)), np.array(0)]),
    "takes real X, or with inverse": (ShapeError, onnx("DFT", "x", onesided=1), [random((2, 3, 2))]),
    "do not fit": (ShapeError, onnx("STFT", "x s - n"), [random((1, 8, 1)), np.array(2), None, np.array(9)]),
    "window must have 4": (
        ShapeError,
        onnx("STFT", "x s w n"),
        [random((1, 8, 1)), np.array(2), random((3,)), np.array(4)],
    ),
    "half the sample rate": (ShapeError, MEL_MATRIX, [*MEL, np.float32(0), np.float32(5000)]),
    "output_datatype": (ArgumentError, MEL_MATRIX.with_args(output_datatype=99), [*MEL, np.float32(0), np.float32(1)]),
}


@pytest.mark.parametrize("message", REFUSALS)
def test_refuses(message: str) -> None:
    error, op, inputs = REFUSALS[message]
    with pytest.raises(error, match=message):
        run_kernel(op, inputs, constants=range(len(inputs)))
