"""Transposed convolutions and linear interpolations between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize.passes.integers.enlarge_integers import PASS
from tests.optimize.nets import applied, refusals
from tests.optimize.passes.integers.qdq import DQ, RANDOM, assert_keeps_integers, qdq, types

IMAGE, WIDE = {"x": (2, 4, 7, 6)}, {"x": (2, 3, 9, 20)}
TIES = 0.3  # of interpolated results, many of which are halves: TensorFlow Lite does not round those to even numbers
W, B = f"{DQ}(v, vs, vz) -> W  axis=1", f"{DQ}(c, bs) -> B  axis=0"
SCALES = np.linspace(0.001, 0.01, 6).astype(np.float32)
FILTERS = {"v": RANDOM.integers(-127, 128, (4, 6, 3, 3)).astype(np.int8), "vs": SCALES, "vz": np.zeros(6, np.int8)}
TWOS = {**FILTERS, "v": RANDOM.integers(-127, 128, (4, 6, 2, 2)).astype(np.int8)}
UNSIGNED = {"v": RANDOM.integers(0, 256, (4, 6, 3, 3)).astype(np.uint8), "vs": SCALES[2], "vz": np.uint8(90)}
SIGNED_X = {"z": np.int8(-20), "u": np.int8(5)}
ONE = f"{DQ}(v, vs, vz) -> W"
RESIZE = {"roi": np.zeros(0, "f4"), "twice": np.array([1, 1, 2, 2], "f4"), "thrice": np.array([1, 1, 3, 2], "f4")}
LINEAR = 'onnx.Resize(X, roi, twice) -> y  mode="linear"'
CORNERS = "UpsampleBilinear(X) -> y  height_scale=4.0  width_scale=2.0"
TRANSPOSED, CUT = "tflite.QuantizedConvTranspose", "onnx.Slice"


def spread(*rest: str, more: Any = FILTERS, out: str = "t, u", weights: str = W) -> Any:
    return qdq(weights, *rest, shapes=IMAGE, more=more, out=out)


@pytest.mark.parametrize(
    ("net", "made"),
    [
        (spread(B, "ConvTranspose(X, W, B) -> y  kernel=2  stride=2", more=TWOS), [TRANSPOSED]),
        (spread("onnx.ConvTranspose(X, W) -> y  strides=[2, 2]"), [TRANSPOSED]),
        (spread("onnx.ConvTranspose(X, W) -> y  strides=[2, 1]", more={**FILTERS, **SIGNED_X}), [TRANSPOSED]),
        (spread("onnx.ConvTranspose(X, W) -> y  strides=[2, 2]  pads=[0, 0, 1, 1]"), [TRANSPOSED]),
        (spread("onnx.ConvTranspose(X, W) -> y  pads=[1, 0, 2, 1]  strides=[2, 2]"), [TRANSPOSED, CUT]),
        (
            spread("onnx.ConvTranspose(X, W) -> y  strides=[2, 2]  pads=[1, 1, 1, 1]  output_padding=[1, 1]"),
            [TRANSPOSED, CUT],
        ),
        (spread("onnx.ConvTranspose(X, W) -> y  strides=[3, 3]", more=UNSIGNED, weights=ONE), [TRANSPOSED]),
        (spread("ConvTranspose(X, W) -> a  kernel=3", "Relu(a) -> y"), [TRANSPOSED, "armnet.LookUp"]),
        (
            spread(
                "ConvTranspose(X, W) -> a  kernel=3", "Relu(a) -> y", out="t, o", more={**FILTERS, "o": np.uint8(0)}
            ),
            [TRANSPOSED],
        ),
    ],
    ids=lambda value: value[0].split("\n")[-3].strip()[:60] if isinstance(value, tuple) else "",
)
def test_transposed_convolutions(net: Any, made: Any) -> None:
    assert [one for one in types(applied(PASS, *net)) if one != "Transpose"] == made
    assert_keeps_integers(PASS, net)


@pytest.mark.parametrize("zero", [np.uint8(100), np.int8(-20)])
@pytest.mark.parametrize(
    "resize",
    [
        LINEAR,
        f'{LINEAR}  coordinate_transformation_mode="asymmetric"',
        f'{LINEAR}  coordinate_transformation_mode="pytorch_half_pixel"',
    ],
)
def test_interpolations(resize: str, zero: Any) -> None:
    net = qdq(resize, shapes=WIDE, out="s, z", more={**RESIZE, "z": zero})
    assert types(applied(PASS, *net)) == ["Transpose", "tflite.QuantizedResizeBilinear", "Transpose"]
    assert_keeps_integers(PASS, net, beside=TIES)


def test_a_picture_of_the_same_size_stays_as_it_is() -> None:
    net = qdq(LINEAR, shapes=IMAGE, out="s, z", more={**RESIZE, "twice": np.ones(4, np.float32)})
    assert types(applied(PASS, *net)) == []


@pytest.mark.parametrize("resize", [CORNERS, LINEAR.replace("twice", "thrice")])
def test_uint8_is_interpolated_as_floats_are_where_int8_is_too_coarse(resize: str) -> None:
    net = qdq(resize, shapes=WIDE, out="s, z", more=RESIZE)
    assert types(applied(PASS, *net)) == ["Transpose", "tflite.QuantizedResizeBilinear", "Transpose"]
    assert_keeps_integers(PASS, net, beside=TIES)
    reason = "TensorFlow Lite interpolates in another way, or its fixed point is too coarse"
    assert refusals(PASS, *qdq(resize, shapes=WIDE, out="s, z", more={**RESIZE, "z": np.int8(3)})) == [reason]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            spread("ConvTranspose(X, W) -> y  kernel=3", out="t, i"),
            "its input and its output are integers of different",
        ),
        (spread("onnx.ConvTranspose(X, W) -> y  dilations=[2, 2]"), "it has groups or dilations, or its channels are"),
        (spread("onnx.ConvTranspose(X, W) -> y  group=2"), "it has groups or dilations, or its channels are last"),
        (
            spread("ConvTranspose(X, W) -> y  kernel=3", weights=ONE, more={**UNSIGNED, **SIGNED_X}),
            "'v', minus its zero points, does not fit into int8",
        ),
        (qdq(LINEAR, shapes=IMAGE, more=RESIZE), "its result has another scale"),
        (
            qdq(LINEAR, shapes=IMAGE, out="s, z", more={**RESIZE, "twice": np.array([1, 2, 2, 2], "f4")}),
            "it resizes more than the height and the width",
        ),
        (
            qdq(LINEAR.replace("linear", "cubic"), shapes=IMAGE, out="s, z", more=RESIZE),
            "TensorFlow Lite interpolates in another way, or its fixed point is too coarse",
        ),
    ],
)
def test_others_stay(net: Any, reason: str) -> None:
    assert any(reason in one for one in refusals(PASS, *net))
