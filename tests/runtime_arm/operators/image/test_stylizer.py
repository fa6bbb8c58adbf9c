"""The style-transfer demo's conversions from bytes to floats and back."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef, OperatorDef

MEAN = np.array([102.9801, 115.9465, 122.7717], np.float32)


def preprocess(**arguments: float) -> OperatorDef:
    return OperatorDef.of("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["X", "mean"], ["Y"], **arguments)


def deprocess() -> OperatorDef:
    return OperatorDef.of("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", ["X", "mean"], ["Y"])


def picture(height: int = 40, width: int = 25) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 255, (2, height, width, 4), np.uint8, endpoint=True)


def test_without_noise_the_mean_is_subtracted_from_each_plane() -> None:
    x = picture()
    expected = x[..., :3].transpose(0, 3, 1, 2).astype(np.float32) - MEAN.reshape(3, 1, 1)
    np.testing.assert_array_equal(run_kernel(preprocess(noise_std=0.0), [x, MEAN])[0], expected)
    assert assert_engines_match_reference(preprocess(noise_std=0.0), [x, MEAN]) == ["NUMPY"]


def test_noise_is_repeated_along_the_pixels_and_in_every_image() -> None:
    x = np.zeros((2, 40, 25, 4), np.uint8)
    noise = run_kernel(preprocess(), [x, np.zeros(3, np.float32)], "NUMPY")[0]
    cycle = noise[0].transpose(1, 2, 0).reshape(-1)
    np.testing.assert_array_equal(noise[0], noise[1])
    np.testing.assert_array_equal(cycle[491 : 2 * 491], cycle[:491])
    assert 8 < cycle[:491].std() < 12
    assert abs(cycle[:491].mean()) < 3


def test_noise_is_the_same_in_every_run_of_a_predictor() -> None:
    init = NetDef("init", (OperatorDef.of("GivenTensorFill", [], ["mean"], shape=[3], values=MEAN.tolist()),))
    net = NetDef("net", (preprocess(),), external_input=("X", "mean"), external_output=("Y",))
    with Predictor(init, net) as predictor:
        x = picture()
        np.testing.assert_array_equal(predictor.run([x])["Y"], predictor.run([x])["Y"])


def test_a_round_trip_gives_the_picture_with_full_opacity() -> None:
    x = picture()
    planes = x[..., :3].transpose(0, 3, 1, 2).astype(np.float32) - MEAN.reshape(3, 1, 1) + np.float32(0.01)
    (y,) = run_kernel(deprocess(), [planes, MEAN])
    np.testing.assert_array_equal(y[..., :3], x[..., :3])
    assert (y[..., 3] == 255).all()
    assert assert_engines_match_reference(deprocess(), [planes, MEAN]) == ["NUMPY"]


def test_colours_are_clipped_and_truncated() -> None:
    x = np.array([-5, 0.99, 254.99, 255.5, 1e9, np.inf, -np.inf, np.nan, 7], np.float32).reshape(1, 3, 1, 3)
    (y,) = run_kernel(deprocess(), [x, np.zeros(3, np.float32)])
    assert y[0, 0, :, :3].tolist() == [[0, 255, 0], [0, 255, 0], [254, 255, 7]]
    assert assert_engines_match_reference(deprocess(), [x, np.zeros(3, np.float32)]) == ["NUMPY"]


def test_refusals_say_why() -> None:
    with pytest.raises(ShapeError, match=r"\(N, H, W, 4\)"):
        run_kernel(preprocess(), [np.zeros((1, 2, 2, 3), np.uint8), MEAN])
    with pytest.raises(ShapeError, match="mean must be 3"):
        run_kernel(deprocess(), [np.zeros((1, 3, 2, 2), np.float32), MEAN[:2]])
    with pytest.raises(ArgumentError, match="noise_size"):
        run_kernel(preprocess(noise_size=0), [picture(), MEAN])
