"""Pictures of another size on integers of 8 and of 16 bits, bit for bit as LiteRT's reference kernels compute them."""

from __future__ import annotations

import math
from typing import Any, Dict, List

import numpy as np
import pytest

from optimize import quantize
from optimize.quantization import QuantizationReport
from runtime_arm.errors import UsageError
from tests.optimize.nets import numbers, pair_of
from tests.optimize.quantization.test_quantize import NET, SHAPES, samples, snr, types, weights

PADS, AXES = np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64), np.array([2, 3], np.int64)
SIZES = {name: np.array(of, np.int64) for name, of in (("up", [1, 8, 11, 13]), ("twice", [1, 8, 16, 16]))}
RESIZE = 'onnx.Resize(a, , , {}) -> c  mode="linear" coordinate_transformation_mode="{}"'
FIRST = "Conv(x, w, b) -> a  kernel=3 pad=1"
# Behind a convolution to 8 channels of 8 x 8 pixels: the operator on integers, and what stands there.
PICTURES: Dict[str, Any] = {
    "pad": ("PadImage(a) -> c  pads=[1, 2, 0, 1]", "onnx.Pad"),
    "onnx pad": ("onnx.Pad(a, pads) -> c", "onnx.Pad"),
    "reflect": ('PadImage(a) -> c  pads=[1, 2, 0, 1] mode="reflect"', "onnx.Pad"),
    "nearest": ("ResizeNearest(a) -> c  height_scale=2.0 width_scale=3.0", "ResizeNearest"),
    "half pixel": (RESIZE.format("up", "half_pixel"), "tflite.QuantizedResizeBilinear"),
    "asymmetric": (RESIZE.format("twice", "asymmetric"), "tflite.QuantizedResizeBilinear"),
    "aligned": (RESIZE.format("up", "align_corners"), "tflite.QuantizedResizeBilinear"),
    "upsampled": ("UpsampleBilinear(a) -> c  height_scale=2.0 width_scale=2.0", "tflite.QuantizedResizeBilinear"),
    "transposed": ("ConvTranspose(a, t, u) -> c  kernel=2 stride=2", "tflite.QuantizedConvTranspose"),
    "transposed same": ("ConvTranspose(a, v) -> c  kernel=4 stride=2 pad=1", "tflite.QuantizedConvTranspose"),
    "transposed by larger strides": ("ConvTranspose(a, t, u) -> c  kernel=2 stride=3", "tflite.QuantizedConvTranspose"),
    "mean": ("ReduceMean(a) -> c  axes=[2, 3] keepdims=1", "tflite.QuantizedMean"),
    "mean of rows": ("ReduceMean(a) -> c  axes=[3] keepdims=0", "tflite.QuantizedMean"),
    "onnx mean": ("onnx.ReduceMean(a, axes) -> c  keepdims=0", "tflite.QuantizedMean"),
    "strided": ("Conv(a, s) -> c  kernel=3 stride=2 pad=1", "tflite.QuantizedConv"),
    "strided depthwise": ("Conv(a, d) -> c  kernel=3 stride=2 pad=1 group=8", "tflite.QuantizedConv"),
    "strided pool": ("MaxPool(a) -> c  kernel=3 stride=2 pad=1", "tflite.QuantizedMaxPool"),
    "slopes": ("PRelu(a, o) -> c", "tflite.QuantizedPRelu"),
    "one slope": ("PRelu(a, i) -> c", "tflite.QuantizedPRelu"),
    "onnx slopes": ("onnx.PRelu(a, p) -> c", "tflite.QuantizedPRelu"),
    "gather": ("Gather(a, picked) -> c  axis=1", "Gather"),
    "gather columns": ("Gather(a, picked) -> c  axis=3", "Gather"),
}


def net(name: str) -> Any:
    rng = np.random.default_rng(4)
    shapes = {
        "w": (8, 3, 3, 3),
        "b": (8,),
        "t": (8, 6, 2, 2),
        "u": (6,),
        "v": (8, 5, 4, 4),
        "s": (6, 8, 3, 3),
        "d": (8, 1, 3, 3),
        "o": (8,),
        "i": (1,),
        "p": (8, 1, 1),
    }
    values: Dict[str, np.ndarray] = {key: rng.standard_normal(of).astype(np.float32) / 3 for key, of in shapes.items()}
    values.update(pads=PADS, axes=AXES, picked=np.array([3, 0, 7, 5], np.int64), **SIZES)
    text = f"{FIRST}\n {PICTURES[name][0].replace('(a, , , ', '(a, none, none, ')}\n Relu(c) -> y"
    if "none" in text:
        values["none"] = np.zeros(0, np.float32)
    used = [key for key in values if f" {key}," in text or f" {key})" in text]
    pair = pair_of(f'net "n": x, {", ".join(used)} -> y\n {text}', {k: values[k] for k in used}, {"x": (1, 3, 8, 8)})
    feeds: List[Any] = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    return pair, feeds


@pytest.mark.parametrize("activations", ["int8", "int16"])
@pytest.mark.parametrize("name", PICTURES)
def test_an_operator(name: str, activations: str) -> None:
    pair, feeds = net(name)
    report = QuantizationReport()
    small = quantize(pair, feeds, activations=activations, report=report)
    assert PICTURES[name][1] in types(small), report.notes
    assert not any("Relu" in one and "tflite" not in one for one in types(small)), "the net is on integers throughout"
    wanted, actual = numbers(pair, feeds[0])["y"], numbers(small, feeds[0])["y"]
    noise = np.square(wanted - actual).sum()
    assert 10 * np.log10(np.square(wanted).sum() / noise) > 25
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed to run files with")
    pytest.importorskip("tflite", reason="tflite is not installed to write files with")
    from tests.exporter.to_tflite.written import run_written, types_of

    model, found = run_written(small, feeds[0])
    np.testing.assert_array_equal(found["y"], actual)
    needed = 1 if name == "mean of rows" else 0  # of what is left of a picture, in the order of the floats
    assert types_of(model).count("TRANSPOSE") == needed, types_of(model)


def test_padding_that_tensorflow_lite_lacks_keeps_a_layer_in_floats() -> None:
    """As many pixels are cut off as by its rule, but the result is smaller than the strides say."""
    rng = np.random.default_rng(2)
    v = {"v": rng.standard_normal((3, 2, 3, 3)).astype(np.float32)}
    text = 'net "n": x, v -> y\n onnx.ConvTranspose(x, v) -> y  strides=[2, 2] pads=[1, 1, 2, 2]'
    feeds: List[Any] = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(2)]
    small = quantize(pair_of(text, v, {"x": (1, 3, 8, 8)}), feeds, activations="int8")
    assert types(small) == ["onnx.ConvTranspose"]


@pytest.mark.parametrize(
    ("window", "type"),
    [
        ("kernel=8", "tflite.QuantizedMean"),
        ("global_pooling=1", "tflite.QuantizedMean"),
        ("kernel_h=8 kernel_w=4", "tflite.QuantizedAveragePool"),
        ("kernel=8 pad=4 stride=8", "tflite.QuantizedAveragePool"),
    ],
)
def test_means_of_whole_pictures_have_a_scale_of_their_own(window: str, type: str) -> None:
    """They are small beside the largest pixel."""
    rng = np.random.default_rng(3)
    w = {"w": rng.standard_normal((4, 3, 1, 1)).astype(np.float32), "v": np.ones((2, 4, 1, 1), np.float32)}
    text = f"""net "n": x, w, v -> y
        Conv(x, w) -> a  kernel=1
        AveragePool(a) -> b  {window}
        Conv(b, v) -> y  kernel=1"""
    pair = pair_of(text, w, {"x": (1, 3, 8, 8)})
    feeds: List[Any] = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    small = quantize(pair, feeds, activations="int8", equalize=False, snr=-math.inf)
    (pool,) = (op for op in small.predict_net.op if op.full_type == type)
    conv = next(op for op in small.predict_net.op if op.output[0] == pool.input[0])
    if type == "tflite.QuantizedMean":
        assert pool.get_float("Y_scale") < 0.3 * conv.get_float("Y_scale")
    else:
        assert pool.get_float("Y_scale") == conv.get_float("Y_scale")


def test_sixteen_bits_are_closer_than_eight() -> None:
    pair, report = pair_of(NET, weights(), SHAPES), QuantizationReport()
    narrow = quantize(pair, samples(8), activations="int8")
    wide = quantize(pair, samples(8), activations="int16", report=report)
    assert snr(pair, wide) > snr(pair, narrow) + 3
    assert all(row.choice.activations == "int16" for row in report.layers)
    assert "tflite.QuantizedConv" in types(wide)


def test_a_net_has_integers_of_one_size() -> None:
    from optimize.quantization.table import Choice

    with pytest.raises(UsageError, match="a net computes on int8 or on int16"):
        quantize(
            pair_of(NET, weights(), SHAPES), samples(2), activations="int8", table={"FC g": Choice("int8", "int16")}
        )
