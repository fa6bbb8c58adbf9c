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
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of
from tests.optimize.quantization.test_quantize import NET, SHAPES, samples, types, weights

CASES = {
    "Conv(x, w, b) -> a  kernel=3 pad=1\n Relu(a) -> y": "Int8Conv",
    "Conv(x, w, b) -> y  kernel=3 stride=2": "Int8Conv",
    "Conv(x, d) -> y  kernel=3 group=8": "Int8Conv",
    "Conv(x, w, b) -> a  kernel=3 pad=1\n Add(a, x) -> s\n Relu(s) -> y": "Int8Add",
    "Conv(x, w, b) -> a  kernel=3\n AveragePool(a) -> y  kernel=2 stride=2": "Int8AveragePool",
    "Conv(x, w, b) -> a  kernel=3\n MaxPool(a) -> y  kernel=2 stride=2": "Int8MaxPool",
    "Conv(x, w, b) -> a  kernel=3\n AveragePool(a) -> y  global_pooling=1": "Int8AveragePool",
    "Conv(x, w, b) -> a  kernel=3\n Sigmoid(a) -> s\n MaxPool(s) -> y  kernel=2": "Int8Sigmoid",
    "Conv(x, w, b) -> a  kernel=3\n LeakyRelu(a) -> y  alpha=0.2": "Int8LeakyRelu",
    "Conv(x, w, b) -> a  kernel=3\n PRelu(a, b) -> y": "PRelu",
    "Conv(x, w, b) -> a  kernel=3\n Concat(a, a) -> y, l  axis=1": "Int8Concat",
    "Conv(x, w, b) -> a  kernel=3\n ResizeNearest(a) -> y  height_scale=2.0 width_scale=2.0": "Int8ResizeNearest",
    "FC(x, f, g) -> y": "Int8FC",
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
    assert CASES[text] in types(made)
    assert all(op.domain == "" for op in made.predict_net.op)
    wanted, found = numbers(small, feeds[0])["y"], numbers(made, feeds[0])["y"]
    (step,) = {op.get_float("X_scale") for op in small.predict_net.op if op.type == "Dequantize"}
    assert np.abs(wanted - found).max() <= 2.01 * step


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
        ("Conv(x, w, b) -> a  kernel=3\n Tanh(a) -> c\n Relu(c) -> y", True, "QuantizedTanh.*no such operator"),
        ("Conv(x, w, b) -> a  kernel=3\n PadImage(a) -> y  pads=[1, 1, 1, 1]", True, "onnx.Pad.*no such operator"),
    ],
)
def test_what_caffe2_lacks_is_refused_by_name(text: str, per_tensor: bool, reason: str) -> None:
    pair, feeds = case(text)
    with pytest.raises(ArmnetError, match=reason):
        to_caffe2(quantize(pair, feeds, activations="int8", per_tensor=per_tensor))


def test_floats_are_written_where_caffe2_has_the_operators() -> None:
    pair = pair_of(NET, weights(), SHAPES)
    made = to_caffe2(pair)
    assert types(made) == types(pair)
    assert all(op.argument("values").t is None for op in made.init_net.op)
    with pytest.raises(ArmnetError, match=r"onnx.HardSwish\(x\) -> y: Caffe2 has no such operator"):
        to_caffe2(pair_of('net "h": x -> y\n onnx.HardSwish(x) -> y', shapes={"x": (2, 3)}))


def test_packed_weights_are_refused_with_what_to_do() -> None:
    pair = pair_of(NET, weights(), SHAPES)
    with pytest.raises(ArmnetError, match="before it was optimised, or quantised in its weights alone"):
        to_caffe2(quantize(pair, None))
