"""Pairs with Caffe2's operators alone: integers become bytes, and what Caffe2 lacks is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from exporter.to_caffe2.export import to_caffe2
from optimize import quantize
from optimize.quantization.outputs import OutputNoise
from runtime_arm.errors import ArmnetError
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of
from tests.optimize.quantization.test_quantize import NET, SHAPES, samples, types, weights

# What stands for them on bytes, and by how many steps a result may be off: of an operator that rounds as often as
# TensorFlow Lite's by none.
CASES = {
    "Conv(x, w, b) -> a  kernel=3 pad=1\n Relu(a) -> y": ("Int8Conv", 0),
    "Conv(x, w, b) -> a  kernel=3\n Clip(a) -> y  min=0.0 max=6.0": ("Int8Conv", 0),
    "Conv(x, w, b) -> y  kernel=3 stride=2": ("Int8Conv", 0),
    "Conv(x, d) -> y  kernel=3 group=8": ("Int8Conv", 0),
    "Conv(x, w, b) -> a  kernel=3 pad=1\n Add(a, x) -> s\n Relu(s) -> y": ("Int8Add", 0),
    "Conv(x, w, b) -> a  kernel=3\n AveragePool(a) -> y  kernel=2 stride=2": ("Int8AveragePool", 1),
    "Conv(x, w, b) -> a  kernel=3\n MaxPool(a) -> y  kernel=2 stride=2": ("Int8MaxPool", 0),
    "Conv(x, w, b) -> a  kernel=3\n AveragePool(a) -> y  global_pooling=1": ("Int8AveragePool", 1),
    "Conv(x, w, b) -> a  kernel=3\n Sigmoid(a) -> s\n MaxPool(s) -> y  kernel=2": ("Int8Sigmoid", 1),
    "Conv(x, w, b) -> a  kernel=3\n LeakyRelu(a) -> y  alpha=0.2": ("Int8LeakyRelu", 1),
    "Conv(x, w, b) -> a  kernel=3\n PRelu(a, b) -> y": ("PRelu", 1),
    "Conv(x, w, b) -> a  kernel=3\n onnx.HardSwish(a) -> y": ("HardSigmoid", 1),
    "Conv(x, w, b) -> a  kernel=3\n Tanh(a) -> c\n MaxPool(c) -> y  kernel=2": ("Tanh", 1),
    "Conv(x, w, b) -> a  kernel=3 pad=1\n Mul(a, x) -> y": ("Mul", 1),
    "Conv(x, w, b) -> a  kernel=3\n Concat(a, a) -> y, l  axis=1": ("Int8Concat", 0),
    'Conv(x, w, b) -> a  kernel=3\n PadImage(a) -> y  pad=1 mode="edge"': ("PadImage", 0),
    "Conv(x, w, b) -> a  kernel=3\n PadImage(a) -> y  pads=[1, 0, 2, 1]": ("Int8Concat", 0),
    "Conv(x, w, b) -> a  kernel=3\n AveragePool(a) -> p  global_pooling=1\n Squeeze(p) -> y  dims=[2, 3]": (
        "Int8Reshape",
        1,
    ),
    "Conv(x, w, b) -> a  kernel=3\n ResizeNearest(a) -> y  height_scale=2.0 width_scale=2.0": ("Int8ResizeNearest", 0),
    "FC(x, f, g) -> y": ("Int8FC", 1),
}


def case(text: str) -> Any:
    rng = np.random.default_rng(3)
    shapes = {"w": (8, 8, 3, 3), "b": (8,), "d": (8, 1, 3, 3), "f": (9, 8 * 36), "g": (9,)}
    values = {name: rng.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}
    used = [name for name in values if f" {name}," in text or f" {name})" in text]
    pair = pair_of(f'net "n": x, {", ".join(used)} -> y\n {text}', {n: values[n] for n in used}, {"x": (1, 8, 6, 6)})
    feeds: List[Any] = [{"x": rng.standard_normal((1, 8, 6, 6)).astype(np.float32)} for _ in range(4)]
    return pair, feeds


@pytest.mark.parametrize("text", CASES)
def test_an_operator_on_bytes(text: str) -> None:
    pair, feeds = case(text)
    small = quantize(pair, feeds, activations="int8", per_tensor=True)
    made = to_caffe2(small)
    type, off = CASES[text]
    assert type in types(made)
    assert all(op.domain == "" for op in made.predict_net.op)
    assert (made.init_net.is_narrow, made.predict_net.is_narrow) == (False, False)
    wanted, found = numbers(small, feeds[0])["y"], numbers(made, feeds[0])["y"]
    (step,) = {op.get_float("X_scale") for op in small.predict_net.op if op.type == "Dequantize"}
    assert np.abs(wanted - found).max() <= (off + 0.01) * step


def test_a_layer_that_ends_at_six_does_so_by_its_largest_byte() -> None:
    pair, feeds = case("Conv(x, w, b) -> a  kernel=3\n Clip(a) -> y  min=0.0 max=6.0")
    large = [{"x": 9 * feed["x"]} for feed in feeds]
    small = quantize(pair, large, activations="int8", per_tensor=True)
    assert [op.get_str("activation") for op in small.predict_net.op if op.type == "QuantizedConv"] == ["RELU6"]
    wanted, found = numbers(small, large[0])["y"], numbers(to_caffe2(small), large[0])["y"]
    assert wanted.max() > 5.9
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("quantised", [False, True])
def test_sizes_that_are_open_are_no_reason_to_refuse_a_layer(quantised: bool) -> None:
    rng = np.random.default_rng(5)
    shapes = {"w": (8, 3, 3, 3), "f": (9, 8 * 16), "g": (9,), "h": (4, 9), "i": (4,)}
    values = {name: rng.standard_normal(shape).astype(np.float32) / 4 for name, shape in shapes.items()}
    text = "Conv(x, w) -> a  kernel=3\n FC(a, f, g) -> c\n Relu(c) -> d\n FC(d, h, i) -> y"
    pair = pair_of(f'net "n": x, w, f, g, h, i -> y\n {text}', values, {"x": (None, 3, None, None)})
    feeds: List[Any] = [{"x": rng.standard_normal((1, 3, 6, 6)).astype(np.float32)} for _ in range(4)]
    source = quantize(pair, feeds, activations="int8", per_tensor=True) if quantised else pair
    made = to_caffe2(source)
    assert types(made).count("Int8FC" if quantised else "FC") == 2
    steps = [op.get_float("X_scale") for op in source.predict_net.op if op.type == "Dequantize"] or [0.0]
    wanted, found = numbers(source, feeds[0])["y"], numbers(made, feeds[0])["y"]
    assert np.abs(wanted - found).max() <= 2.01 * steps[0]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_along_an_axis(axis: int) -> None:
    pair = pair_of(f'net "n": x -> y\n onnx.Softmax(x) -> y  axis={axis}', shapes={"x": (2, 3, 4)})
    made = to_caffe2(pair)
    assert all(op.domain == "" for op in made.predict_net.op)
    feeds = {"x": np.random.default_rng(7).standard_normal((2, 3, 4)).astype(np.float32)}
    np.testing.assert_array_max_ulp(numbers(pair, feeds)["y"], numbers(made, feeds)["y"], 4)


def test_softmax_of_bytes_keeps_to_its_rows() -> None:
    text = "tflite.Quantize(x) -> q  Y_scale=0.1 Y_zero_point=3 to=7\n"
    text += " tflite.QuantizedSoftmax(q) -> s  X_scale=0.1 X_zero_point=3\n"
    text += " tflite.Dequantize(s) -> y  X_scale=0.00390625 X_zero_point=-128"
    pair = pair_of(f'net "n": x -> y\n {text}', shapes={"x": (2, 3, 4)})
    feeds = {"x": np.random.default_rng(7).standard_normal((2, 3, 4)).astype(np.float32)}
    wanted, found = numbers(pair, feeds)["y"], numbers(to_caffe2(pair), feeds)["y"]
    assert np.abs(wanted - found).max() <= 1.01 / 256


@pytest.mark.parametrize(("value", "pads"), [("", [0, 1, 0, 2, 1, 0, 0, 3]), (", v", [0, 0, 2, 0] * 2), ("", [0] * 8)])
def test_floats_are_padded_by_joining_constants(value: str, pads: List[int]) -> None:
    constants = {"p": np.array(pads), "v": np.array(2.5, np.float32)}
    text = f'net "n": x, p{value} -> y\n onnx.Pad(x, p{value}) -> y'
    pair = pair_of(text, {"p": constants["p"], **({"v": constants["v"]} if value else {})}, {"x": (2, 3, 4, 5)})
    made = to_caffe2(pair)
    assert set(types(made)) == {"Concat"}
    feeds = {"x": np.random.default_rng(7).standard_normal((2, 3, 4, 5)).astype(np.float32)}
    np.testing.assert_array_equal(numbers(made, feeds)["y"], numbers(pair, feeds)["y"])


def test_softplus_does_not_overflow() -> None:
    pair = pair_of('net "n": x -> y\n onnx.Softplus(x) -> y', shapes={"x": (4,)})
    made = to_caffe2(pair)
    assert all(op.domain == "" for op in made.predict_net.op)
    feeds = {"x": np.array([100.0, 0.0, -1.0, -200.0], np.float32)}
    np.testing.assert_array_max_ulp(numbers(pair, feeds)["y"], numbers(made, feeds)["y"], 1)


def test_sign_is_caffe2s() -> None:
    made = to_caffe2(pair_of('net "n": x -> y\n onnx.Sign(x) -> y', shapes={"x": (3,)}))
    assert [op.full_type for op in made.predict_net.op] == ["Sign"]
    np.testing.assert_array_equal(numbers(made, {"x": np.array([-2, 0, 3], np.float32)})["y"], [-1, 0, 1])


def test_a_net_is_saved_and_loaded(tmp_path: Path) -> None:
    pair = pair_of(NET.replace("Clip(b) -> s  min=0.0 max=6.0", "Relu(b) -> s"), weights(), SHAPES)
    small = quantize(pair, samples(8), activations="int8", per_tensor=True)
    to_caffe2(small).save(tmp_path / "bytes")
    loaded = Pair.load(tmp_path / "bytes")
    assert {op.type for op in loaded.init_net.op} >= {"Int8GivenTensorFill", "Int8GivenIntTensorFill"}
    noise = OutputNoise(pair, samples(4, seed=1))
    assert noise.of(loaded) > noise.of(small) - 1 > 19


@pytest.mark.parametrize(
    ("text", "per_tensor", "reason"),
    [
        ("Conv(x, w, b) -> y  kernel=3", False, "QuantizedConv.*a scale for each filter.*--per-tensor"),
        (
            "Conv(x, w, b) -> a  kernel=3\n ReduceMean(a) -> y  axes=[1]",
            True,
            "QuantizedMean.*only the mean of a whole picture",
        ),
    ],
)
def test_what_caffe2_lacks_is_refused_by_name(text: str, per_tensor: bool, reason: str) -> None:
    pair, feeds = case(text)
    with pytest.raises(ArmnetError, match=reason):
        to_caffe2(quantize(pair, feeds, activations="int8", per_tensor=per_tensor))


def reading(dtype: str, text: str, weights: Any, shape: Any) -> Pair:
    """A pair whose input x holds integers."""
    return pair_of(text, weights, {"x": shape}).replace(inputs=(TensorInfo("x", shape, dtype),)).check()


UNSIGNED = """net "n": x, w, b -> y
 tflite.QuantizedConv(x, w, b) -> a  X_scale=0.05 X_zero_point=120 W_scales=[0.004] W_zero_point=131 Y_scale=0.06 \
Y_zero_point=7 pads=[1, 1, 1, 1] strides=[1, 1] activation="{}"
 tflite.QuantizedMaxPool(a) -> y  kernel_shape=[2, 2] strides=[2, 2] Y_scale=0.06 Y_zero_point=7"""


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
def test_unsigned_integers_stay_what_they_are(activation: str) -> None:
    """Inputs and outputs keep their type. A layer may end where no operator of Caffe2 on bytes does."""
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8),
        "b": rng.integers(-999, 999, 4).astype(np.int32),
    }
    pair = reading("uint8", UNSIGNED.format(activation), weights, (1, 6, 6, 3))
    made = to_caffe2(pair)
    assert {op.domain for op in made.predict_net.op} == {""}
    feeds = {"x": rng.integers(0, 256, (1, 6, 6, 3)).astype(np.uint8)}
    wanted, found = numbers(pair, feeds)["y"], numbers(made, feeds)["y"]
    assert found.dtype == np.uint8
    assert len(np.unique(wanted)) > 3
    np.testing.assert_array_equal(found, wanted)


def test_one_blob_of_weights_has_one_scale() -> None:
    layer = " tflite.QuantizedConv({}, w) -> {}  X_scale=0.05 W_scales=[{}] Y_scale=0.05 strides=[1, 1]"
    text = 'net "n": x, w -> y\n' + layer.format("x", "a", 0.25) + "\n" + layer.format("a", "y", 0.5)
    weights = {"w": np.ones((3, 1, 1, 3), np.int8)}
    pair = reading("int8", text, weights, (1, 4, 4, 3))
    with pytest.raises(ArmnetError, match="'w' have another scale elsewhere"):
        to_caffe2(pair)


def test_sixteen_bits_are_no_bytes() -> None:
    text = "tflite.Quantize(x) -> q  Y_scale=0.1 to=9\n tflite.Dequantize(q) -> y  X_scale=0.1"
    with pytest.raises(ArmnetError, match="take only bytes, and 'q' holds int16"):
        to_caffe2(pair_of(f'net "n": x -> y\n {text}', shapes={"x": (2, 3)}))


def test_floats_are_written_where_caffe2_has_the_operators() -> None:
    pair = pair_of(NET, weights(), SHAPES)
    made = to_caffe2(pair)
    assert types(made) == types(pair)
    assert all(op.argument("values").t is None for op in made.init_net.op)
    with pytest.raises(ArmnetError, match=r"onnx.Celu\(x\) -> y: Caffe2 has no such operator"):
        to_caffe2(pair_of('net "h": x -> y\n onnx.Celu(x) -> y', shapes={"x": (2, 3)}))


def test_hard_swish_of_floats() -> None:
    pair = pair_of('net "h": x -> y\n onnx.HardSwish(x) -> y', shapes={"x": (7,)})
    made = to_caffe2(pair)
    assert types(made) == ["HardSigmoid", "Mul"]
    feeds = {"x": np.array([-4, -3, -1.5, 0, 1, 3, 9], np.float32)}
    np.testing.assert_array_max_ulp(numbers(pair, feeds)["y"], numbers(made, feeds)["y"], 4)


def test_packed_weights_are_refused_with_what_to_do() -> None:
    pair = pair_of(NET, weights(), SHAPES)
    with pytest.raises(ArmnetError, match="before it was optimised, or quantised in its weights alone"):
        to_caffe2(quantize(pair, None))


@pytest.mark.parametrize(
    ("branch", "reason"),
    [
        ("-> y\n Relu(x) -> y", None),
        ("-> z\n Relu(x) -> z", "by name.*does not write 'y'"),
        ("-> y\n onnx.HardSwish(x) -> y", "no onnx.HardSwish, which the sub-net 'b' contains"),
    ],
)
def test_branches_hold_caffe2s_operators_and_write_outputs_by_name(branch: str, reason: Any) -> None:
    text = f'If(c) -> y  then_net={{\n net "b": {branch}\n }} else_net={{\n net "e": -> y\n Tanh(x) -> y\n }}'
    pair = pair_of(f'net "n": x, c -> y\n {text}', shapes={"x": (2, 3), "c": ()})
    if reason is None:
        assert types(to_caffe2(pair)) == ["If"]
    else:
        with pytest.raises(ArmnetError, match=reason):
            to_caffe2(pair)
