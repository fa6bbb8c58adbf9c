"""TFLite's integers in ONNX's QDQ form, run by onnxruntime: operators within a step of the runtime, networks close."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

from optimize import optimize, quantize
from runtime_arm.errors import UsageError
from runtime_arm.netdef import OperatorDef
from tests.exporter.tflite.test_networks import INTEGER, exported, outputs_of, recorded
from tests.optimize.nets import numbers, pair_of, pair_of_net
from tests.support.onnx_models import run_model

pytest.importorskip("onnx", reason="onnx is not installed to write models with")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed to run models with")

from exporter import export
from exporter.to_onnx.export import to_onnx
from runtime_arm.netdef import NetDef

RANDOM = np.random.default_rng(2)
X: Dict[str, Any] = {"X_scale": 0.05, "X_zero_point": 3}
Y: Dict[str, Any] = {"Y_scale": 0.11, "Y_zero_point": -7}
A: Dict[str, Any] = {"A_scale": 0.05, "A_zero_point": 3, "B_scale": 0.03, "B_zero_point": -5}
SAME: Dict[str, Any] = {"Y_scale": 0.05, "Y_zero_point": 3}
W: Dict[str, Any] = {"W_scales": [0.01, 0.02, 0.015, 0.007], "W_zero_point": 0}
RELU6: Dict[str, Any] = {"activation": "RELU6"}
IMAGE, ROWS = (2, 6, 5, 4), (3, 4)


def integers(*shape: int) -> np.ndarray:
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


PADDED: Dict[str, Any] = {"pads": [1] * 4, "strides": [2, 1]}
BIAS = RANDOM.integers(-2000, 2000, 4).astype(np.int32)
FC = [integers(4, 4), BIAS]
CASES: Dict[str, Any] = {
    "conv": ("QuantizedConv", {**X, **Y, **W, **PADDED}, [IMAGE], [integers(4, 3, 3, 4), BIAS]),
    "depthwise": ("QuantizedConv", {**X, **Y, **W, "group": 4, **RELU6}, [IMAGE], [integers(4, 2, 2, 1), BIAS]),
    "same": ("QuantizedConv", {**X, **Y, **W, "auto_pad": "SAME_UPPER"}, [IMAGE], [integers(4, 2, 2, 4)]),
    "transposed": (
        "QuantizedConvTranspose",
        {**X, **Y, **W, "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        [IMAGE],
        [integers(4, 3, 3, 4), np.array([11, 10], np.int32), BIAS],
    ),
    "transposed to more": (
        "QuantizedConvTranspose",
        {**X, **Y, **W, "strides": [2, 3], "auto_pad": "VALID"},
        [IMAGE],
        [integers(4, 3, 2, 4), np.array([14, 14], np.int32)],
    ),
    "fc": ("QuantizedFullyConnected", {**X, **Y, **W, "keep_num_dims": 1}, [ROWS], FC),
    "fc of more": ("QuantizedFullyConnected", {**X, **Y, **W, "keep_num_dims": 1}, [(2, 3, 4)], FC),
    "matmul": ("QuantizedMatMul", {**A, **Y}, [(2, 3, 4), (2, 4, 3)], []),
    "add": ("QuantizedAdd", {**A, **Y, "activation": "RELU"}, [IMAGE, IMAGE], []),
    "sub": ("QuantizedSub", {**A, **Y}, [IMAGE, (4,)], []),
    "mul": ("QuantizedMul", {**A, **Y}, [IMAGE, IMAGE], []),
    "slopes": ("QuantizedPRelu", {**A, **Y}, [IMAGE], [integers(1, 1, 4)]),
    "average": ("QuantizedAveragePool", {**SAME, "kernel_shape": [2, 2], "strides": [2, 2]}, [IMAGE], []),
    "mean": ("QuantizedMean", {**X, **Y, "axes": [1, 2], "keepdims": 1}, [IMAGE], []),
    "logistic": ("QuantizedLogistic", {**X, "Y_scale": 1 / 256, "Y_zero_point": -128}, [IMAGE], []),
    "tanh": ("QuantizedTanh", {**X, "Y_scale": 1 / 128, "Y_zero_point": 0}, [IMAGE], []),
    "elu": ("QuantizedElu", {**X, **Y}, [IMAGE], []),
    "leaky": ("QuantizedLeakyRelu", {**X, **Y, "alpha": 0.2}, [IMAGE], []),
    "softmax": ("QuantizedSoftmax", {**X, "beta": 1.0}, [ROWS], []),
    "requantize": ("Requantize", {**X, **Y, "to": 7}, [ROWS], []),
}
NO_EXACT_FORM = ("matmul",)


def operator(name: str) -> Any:
    """A pair of one operator, and what to feed."""
    type, arguments, shapes, weights = CASES[name]
    inputs = [f"x{i}" for i in range(len(shapes))]
    constants = {f"w{i}": value for i, value in enumerate(weights)}
    op = OperatorDef.of(type, [*inputs, *constants], ["y"], domain="tflite", **arguments)
    net = NetDef(op=(op,), external_input=(*inputs, *constants), external_output=("y",))
    pair = pair_of_net(net, constants, {})
    infos = tuple(info.__class__(info.name, tuple(shape), "int8") for info, shape in zip(pair.inputs, shapes))
    return pair.replace(inputs=infos), {name: integers(*shape) for name, shape in zip(inputs, shapes)}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_is_at_most_a_step_away(name: str) -> None:
    pair, feeds = operator(name)
    wanted, model = numbers(pair, feeds)["y"], to_onnx(pair)
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds["QuantizeLinear"] == 1
    assert kinds["DequantizeLinear"] >= len(feeds)
    (actual,) = run_model(model, feeds)
    assert actual.dtype == wanted.dtype
    far = np.abs(wanted.astype(int) - actual)
    assert far.max() <= 1
    assert np.count_nonzero(far) <= 0.25 * far.size, "TFLite rounds twice, and ties away from zero"
    if name not in NO_EXACT_FORM:
        (exact,) = run_model(to_onnx(pair, integers="exact"), feeds)
        np.testing.assert_array_equal(exact, wanted)


def test_weights_stay_integers_with_a_scale_for_each_filter() -> None:
    pair, _ = operator("conv")
    model = to_onnx(pair)
    made = {node.output[0]: node for node in model.graph.node}
    conv = next(node for node in model.graph.node if node.op_type == "Conv")
    assert [made[name].op_type for name in conv.input] == ["DequantizeLinear"] * 3
    dtypes = {init.name: (init.data_type, list(init.dims)) for init in model.graph.initializer}
    assert dtypes[made[conv.input[1]].input[0]] == (3, [4, 4, 3, 3])
    assert dtypes[made[conv.input[2]].input[0]] == (6, [4])
    assert dtypes[made[conv.input[1]].input[1]] == (1, [4])


def test_a_mean_that_onnxruntime_cannot_run_is_spelt_out() -> None:
    weights = {"s": np.float32(0.05), "z": np.int8(3), "t": np.float32(0.11), "o": np.int8(-7)}
    op = OperatorDef.of("QLinearReduceMean", ["x", *weights], ["y"], domain="com.microsoft", axes=[2], keepdims=0)
    net = NetDef(op=(op,), external_input=("x", *weights), external_output=("y",))
    pair = pair_of_net(net, {name: np.asarray(value) for name, value in weights.items()}, {})
    pair = pair.replace(inputs=tuple(info.__class__(info.name, (2, 3, 5), "int8") for info in pair.inputs))
    feeds = {"x": integers(2, 3, 5)}
    (actual,) = run_model(to_onnx(pair), feeds)
    np.testing.assert_array_equal(actual, numbers(pair, feeds)["y"])


def test_pools_of_sixteen_bits_are_exact() -> None:
    op = OperatorDef.of("QuantizedMaxPool", ["x"], ["y"], domain="tflite", kernel_shape=[2, 2], strides=[2, 1])
    pair = pair_of_net(NetDef(op=(op,), external_input=("x",), external_output=("y",)), {}, {})
    pair = pair.replace(inputs=tuple(info.__class__(info.name, IMAGE, "int16") for info in pair.inputs))
    feeds = {"x": RANDOM.integers(-(2**15), 2**15, IMAGE).astype(np.int16)}
    (actual,) = run_model(to_onnx(pair), feeds)
    np.testing.assert_array_equal(actual, numbers(pair, feeds)["y"])


def test_slopes_of_a_picture_need_no_transposition() -> None:
    """Between two convolutions channels stay first."""
    rng = np.random.default_rng(3)
    shapes = {"w": (8, 3, 3, 3), "s": (8,), "v": (4, 8, 1, 1)}
    values = {name: rng.standard_normal(shape).astype(np.float32) / 3 for name, shape in shapes.items()}
    text = 'net "n": x, w, s, v -> y\n Conv(x, w) -> a  kernel=3\n PRelu(a, s) -> b\n Conv(b, v) -> y  kernel=1'
    pair = pair_of(text, values, {"x": (1, 3, 8, 8)})
    feeds = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    small = quantize(pair, feeds, activations="int8", snr=-math.inf)
    model = to_onnx(small)
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds["PRelu"] == 1
    assert kinds["Transpose"] <= 4, "at the ends"
    (actual,) = run_model(model, feeds[0])
    (step,) = {op.get_float("X_scale") for op in small.predict_net.op if op.type == "Dequantize"}
    assert np.abs(actual - numbers(small, feeds[0])["y"]).max() <= 3.01 * step


def test_a_form_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="integers can be qdq or exact; got 'int8'"):
        to_onnx(operator("add")[0], integers="int8")


@pytest.mark.parametrize("name", [name for name in INTEGER[1:] if "movenet" not in name])
def test_a_network(shared: Path, tmp_path: Path, name: str) -> None:
    """The highest class is the same; optimised again, the ONNX file computes on integers in the runtime as well."""
    import onnx

    reference_ = recorded(shared, "references_tflite_builtin_ref", name)
    pair = optimize(exported(shared, name))
    model = to_onnx(pair)
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds["Transpose"] <= 4, "pictures keep their channels first between operators"
    feeds = {pair.inputs[0].name: reference_["input"][:1]}
    onnx.save(model, str(tmp_path / "net.onnx"))
    again = optimize(export(tmp_path / "net.onnx"))
    types = Counter(op.type for op in again.predict_net.op)
    assert types["QLinearConv"] == kinds["Conv"]
    assert types["QGemm"] == kinds["Gemm"]
    theirs, ours = run_model(model, feeds), list(numbers(again, feeds).values())
    for result, same, wanted in zip(theirs, ours, outputs_of(reference_)):
        for found in (result, same):
            assert found.argmax() == wanted[:1].argmax()
            noise = np.square(found.astype(float) - wanted[:1]).sum()
            assert 10 * np.log10(np.square(wanted[:1].astype(float)).sum() / max(noise, 1e-9)) > 15
