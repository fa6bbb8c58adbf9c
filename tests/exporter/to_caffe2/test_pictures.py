"""Padding and resizing with Caffe2's operators alone, of floats and of bytes, of known and of open sizes."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter.to_caffe2.export import to_caffe2
from runtime_arm.errors import ArmnetError
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of
from tests.optimize.quantization.test_quantize import types

SHAPE = (2, 3, 6, 5)


def pictures(shape: Sequence[int] = SHAPE) -> Any:
    return {"x": np.random.default_rng(7).standard_normal(shape).astype(np.float32)}


def between_bytes(text: str, dtype: int) -> str:
    """The operator that makes b of a, between a Quantize and a Dequantize. dtype: of the integers."""
    zero = 3 if dtype == 7 else 131
    scale = f"scale=0.03125 {{}}_zero_point={zero}"
    return f"""tflite.Quantize(x) -> a  Y_{scale.format("Y")} to={dtype}
 {text}
 tflite.Dequantize(b) -> y  X_{scale.format("X")}"""


def padded(pads: List[int], mode: str, value: Optional[float], sizes: Sequence[Optional[int]]) -> Pair:
    constants = {"p": np.array(pads), **({} if value is None else {"v": np.array(value, np.float32)})}
    reads = ", ".join(constants)
    return pair_of(
        f'net "n": x, {reads} -> y\n onnx.Pad(x, {reads}) -> y  mode="{mode}"', constants, {"x": tuple(sizes)}
    )


@pytest.mark.parametrize(
    ("shape", "pads", "mode", "value"),
    [
        (SHAPE, [0, 0, 1, 2, 0, 0, 2, 0], "constant", 2.5),
        (SHAPE, [0, 1, 1, 0, 0, 2, 0, 0], "constant", None),
        (SHAPE, [1, 2, 3, 0, 0, 1, 2, 3], "constant", -1.0),
        (SHAPE, [0, 0, -1, 2, 0, 0, 2, -2], "constant", 2.5),
        (SHAPE, [0, 0, 1, 2, 0, 0, 2, 1], "reflect", None),
        (SHAPE, [0, 1, 1, 0, 0, 2, 0, 0], "edge", None),
        (SHAPE, [0] * 8, "constant", None),
        (SHAPE, [0, 1, 2, 1, 0, 2, 1, 3], "constant", 1.0),
        (SHAPE, [1, 1, 2, 0, 0, 2, 1, 0], "edge", None),
        ((2, 7), [0, 3, 0, 2], "reflect", None),
        ((7,), [2, 3], "edge", None),
        ((2, 3, 4), [1, 0, 2, 0, 0, 1], "constant", 0.5),
    ],
)
def test_floats_of_open_sizes_are_padded(shape: Any, pads: List[int], mode: str, value: Optional[float]) -> None:
    pair = padded(pads, mode, value, [None] * len(shape))
    made = to_caffe2(pair)
    assert set(types(made)) <= {"PadImage", "Transpose", "ExpandDims", "Squeeze"}
    np.testing.assert_array_equal(numbers(made, pictures(shape))["y"], numbers(pair, pictures(shape))["y"])


@pytest.mark.parametrize("dtype", [6, 7])
@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_bytes_of_open_sizes_are_padded(mode: str, dtype: int) -> None:
    value = np.array(100, np.uint8 if dtype == 6 else np.int8)
    text = between_bytes(f'onnx.Pad(a, p, v) -> b  mode="{mode}"', dtype)
    constants = {"p": np.array([0, 1, 2, 0, 0, 0, 1, 0]), "v": value}
    pair = pair_of(f'net "n": x, p, v -> y\n {text}', constants, {"x": (None, None, None, 3)})
    made = to_caffe2(pair)
    assert types(made) == ["Int8Quantize", "Int8Dequantize", "PadImage", "Int8Quantize", "Int8Dequantize"]
    feeds = pictures((1, 4, 5, 3))
    np.testing.assert_array_equal(numbers(made, feeds)["y"], numbers(pair, feeds)["y"])


@pytest.mark.parametrize(
    ("shape", "pads", "mode", "reason"),
    [
        ((None,) * 4, [0, 0, 1, 0] * 2, "wrap", "with the pixels of the other end: join them with Concat"),
        ((None,) * 4, [0, 0, -1, 2, 0, 0, 0, 0], "reflect", "cannot cut off and pad by reflect at once: use Slice"),
        ((None,) * 5, [0, 0, 1, 0, 0] * 2, "constant", "at most 4 dimensions .* whose sizes are open.*--shape"),
    ],
)
def test_padding_that_caffe2_lacks_is_refused(shape: Any, pads: List[int], mode: str, reason: str) -> None:
    with pytest.raises(ArmnetError, match=reason):
        to_caffe2(padded(pads, mode, None, shape))


def test_sizes_can_be_named() -> None:
    pair = padded([0, 0, 1, 0, 0] * 2, "constant", None, [None] * 5)
    made = to_caffe2(pair, {"x": (1, 2, 3, 4, 5)})
    assert types(made) == ["Concat"]
    assert made.inputs[0].shape == (1, 2, 3, 4, 5)
    with pytest.raises(ArmnetError, match="no input 'z'; the net takes x"):
        to_caffe2(pair, {"z": (1,)})


def resized(scales: Sequence[float], arguments: str, shape: Any = SHAPE) -> Pair:
    constants = {"s": np.array(scales, np.float32)}
    return pair_of(f'net "n": x, s -> y\n onnx.Resize(x, "", s) -> y  {arguments}', constants, {"x": shape})


NEAREST = 'mode="nearest" coordinate_transformation_mode="{}" nearest_mode="{}"'
LINEAR = 'mode="linear" coordinate_transformation_mode="{}"'


@pytest.mark.parametrize(
    ("scales", "arguments", "kinds"),
    [
        ((1, 1, 2, 3), NEAREST.format("half_pixel", "round_prefer_floor"), {"ResizeNearest"}),
        ((1, 2, 2, 1), NEAREST.format("asymmetric", "floor"), {"ResizeNearest"}),
        ((2, 1, 2, 1), NEAREST.format("asymmetric", "floor"), {"Gather"}),
        ((1, 1, 1.5, 0.7), NEAREST.format("half_pixel", "ceil"), {"Gather"}),
        ((1, 1, 2, 3), LINEAR.format("align_corners"), {"UpsampleBilinear"}),
        ((1, 1, 2, 3), LINEAR.format("half_pixel"), {"BatchMatMul"}),
        ((1, 1, 0.5, 0.4), LINEAR.format("half_pixel") + " antialias=1", {"BatchMatMul"}),
        ((1, 1, 2, 3), 'mode="cubic"', {"BatchMatMul"}),
        ((2, 1, 2, 1), LINEAR.format("half_pixel"), {"BatchMatMul", "Transpose"}),
    ],
)
def test_floats_are_resized(scales: Any, arguments: str, kinds: Any) -> None:
    pair = resized(scales, arguments)
    made = to_caffe2(pair)
    assert set(types(made)) == kinds
    wanted, found = numbers(pair, pictures())["y"], numbers(made, pictures())["y"]
    if kinds & {"Gather", "ResizeNearest"}:
        np.testing.assert_array_equal(found, wanted)
    else:
        assert_close(found, wanted, terms=64)


def test_a_resize_that_changes_nothing_is_a_copy() -> None:
    pair = resized((1, 1), 'mode="cubic"', (2, 7))
    made = to_caffe2(pair)
    assert types(made) == ["Copy"]
    np.testing.assert_array_equal(numbers(made, pictures((2, 7)))["y"], pictures((2, 7))["x"])


def test_pictures_of_open_sizes_are_resized_where_caffe2_takes_the_same_pixels() -> None:
    pair = resized((1, 1, 2, 2), NEAREST.format("half_pixel", "round_prefer_floor"), (None, 3, None, None))
    made = to_caffe2(pair)
    assert types(made) == ["ResizeNearest"]
    np.testing.assert_array_equal(numbers(made, pictures())["y"], numbers(pair, pictures())["y"])
    for arguments in (LINEAR.format("half_pixel"), NEAREST.format("half_pixel", "ceil")):
        with pytest.raises(ArmnetError, match=r"onnx.Resize.*no such resize .*whose sizes are open: .*--shape"):
            to_caffe2(resized((1, 1, 2, 2), arguments, (None, 3, None, None)))


@pytest.mark.parametrize(
    ("scales", "arguments", "type", "off"),
    [
        ((1, 2, 2, 1), NEAREST.format("asymmetric", "floor"), "Int8ResizeNearest", 0),
        ((1, 1, 2, 2), NEAREST.format("half_pixel", "round_prefer_floor"), "Int8Transpose", 0),
        ((1, 1.5, 1, 1), NEAREST.format("half_pixel", "ceil"), "Gather", 0),
        ((1, 2, 2, 1), LINEAR.format("half_pixel"), "BatchMatMul", 1),
    ],
)
def test_bytes_are_resized(scales: Any, arguments: str, type: str, off: int) -> None:
    text = between_bytes(f'onnx.Resize(a, "", s) -> b  {arguments}', 7)
    pair = pair_of(f'net "n": x, s -> y\n {text}', {"s": np.array(scales, np.float32)}, {"x": SHAPE})
    made = to_caffe2(pair)
    assert type in types(made)
    wanted, found = numbers(pair, pictures())["y"], numbers(made, pictures())["y"]
    assert np.abs(wanted - found).max() <= (off + 0.01) * 0.03125


@pytest.mark.parametrize("dtype", [6, 7])
def test_bytes_are_resized_as_tensorflow_lite_does(dtype: int) -> None:
    text = between_bytes("tflite.QuantizedResizeBilinear(a, s) -> b  half_pixel_centers=1", dtype)
    pair = pair_of(f'net "n": x, s -> y\n {text}', {"s": np.array([9, 4])}, {"x": (1, 6, 5, 3)})
    made = to_caffe2(pair)
    assert "BatchMatMul" in types(made)
    feeds = pictures((1, 6, 5, 3))
    wanted, found = numbers(pair, feeds)["y"], numbers(made, feeds)["y"]
    assert np.abs(wanted - found).max() <= 1.01 * 0.03125
    assert (wanted != found).mean() < 0.1


def test_a_resize_that_reads_beyond_the_picture_is_refused() -> None:
    arguments = 'mode="linear" coordinate_transformation_mode="tf_crop_and_resize"'
    constants = {"r": np.array([0, 0, -0.5, 0, 1, 1, 1.5, 1], np.float32), "s": np.array([1, 1, 2, 2], np.float32)}
    pair = pair_of(f'net "n": x, r, s -> y\n onnx.Resize(x, r, s) -> y  {arguments}', constants, {"x": SHAPE})
    with pytest.raises(ArmnetError, match="read nothing outside of a picture"):
        to_caffe2(pair)
