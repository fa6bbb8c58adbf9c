"""ONNX's ImageDecoder beyond ONNX's own cases."""

from __future__ import annotations

import io

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.schema import lookup

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
PIXELS = np.random.default_rng(3).integers(0, 255, (5, 7, 3), np.uint8, endpoint=True)


def decoder(pixel_format: str) -> OperatorDef:
    return OperatorDef.of("ImageDecoder", ["x"], ["y"], domain="onnx", pixel_format=pixel_format)


def encoded(pixels: np.ndarray, kind: str = "PNG") -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


def decoded(pixels: np.ndarray, pixel_format: str) -> np.ndarray:
    op = decoder(pixel_format)
    (found,) = lookup(op).evaluate(op, [encoded(pixels)])
    return np.asarray(found)


def test_a_picture_of_another_kind_gets_the_channels_that_are_asked_for() -> None:
    grey = PIXELS[..., 0]
    np.testing.assert_array_equal(decoded(grey, "RGB"), np.stack([grey] * 3, axis=-1))
    np.testing.assert_array_equal(decoded(grey, "Grayscale"), grey[..., None])
    opaque = np.concatenate([PIXELS, np.full((5, 7, 1), 255, np.uint8)], axis=-1)
    np.testing.assert_array_equal(decoded(opaque, "BGR"), PIXELS[..., ::-1])


def test_a_net_goes_on_with_the_pixels_whatever_their_size() -> None:
    net = NetDef(op=(decoder("RGB"), OperatorDef.of("Cast", ["y"], ["z"], to=1)), external_input=("x",))
    pair = Pair(NetDef(), net.replace(external_output=("z",)), (TensorInfo("x", ("n",), "uint8"),))
    with Predictor(pair, threads=1) as predictor:
        for pixels in (PIXELS, PIXELS[:2]):
            np.testing.assert_array_equal(predictor.run([encoded(pixels)])["z"], pixels.astype(np.float32))


def test_what_is_no_picture_is_refused() -> None:
    op = decoder("RGB")
    program = np.frombuffer(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n", np.uint8)
    for damaged in (np.zeros(40, np.uint8), encoded(PIXELS)[:50], program, encoded(PIXELS, "GIF")):
        with pytest.raises(OperatorError, match="no picture that can be read"):
            lookup(op).evaluate(op, [damaged])
    with pytest.raises(ArgumentError, match="pixel_format must be one of RGB, BGR, Grayscale, got 'HSV'"):
        run_kernel(decoder("HSV"), [encoded(PIXELS)])
