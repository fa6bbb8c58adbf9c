"""ONNX's operators on 8-bit integers as TFLite's: at most one step away, in LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

import armnet
from tests.exporter.to_tflite.written import run_written, types_of

MICROSOFT = "com.microsoft"
SCALE, MIDDLE = 0.05, {"int8": -10, "uint8": 118}  # of what operators read
FILTERS = np.random.default_rng(1).integers(-127, 128, (8, 4, 3, 3)).astype(np.int8)
SCALES = np.linspace(0.002, 0.01, 8).astype(np.float32)
BIAS = np.arange(-400, 400, 100, dtype=np.int32)


def integer_pair(dtype: str, ops: Sequence[OperatorDef], y: Tuple[float, int], **weights: Any) -> Pair:
    """x, float32 (1, 4, 8, 8), becomes integers q; the operators make r of them, whose scale and zero point (of int8)
    are y. s and z are those of q, t and u those of r."""
    shift = 128 if dtype == "uint8" else 0
    weights.update(
        s=np.float32(SCALE), z=np.array(MIDDLE[dtype], dtype), t=np.float32(y[0]), u=np.array(y[1] + shift, dtype)
    )
    quantize = OperatorDef.of("QuantizeLinear", ["x", "s", "z"], ["q"], domain="onnx")
    dequantize = OperatorDef.of("DequantizeLinear", ["r", "t", "u"], ["y"], domain="onnx")
    fills = tuple(fill(name, np.asarray(value)) for name, value in weights.items())
    net = NetDef("n", op=(quantize, *ops, dequantize), external_input=("x", *weights), external_output=("y",))
    return Pair(NetDef("init", fills, external_output=tuple(weights)), net, (TensorInfo("x", (1, 4, 8, 8)),)).check()


def conv(filters: str = "w", **arguments: Any) -> OperatorDef:
    inputs = ["q", "s", "z", filters, "ws", "wz", "t", "u", "b"]
    return OperatorDef.of("QLinearConv", inputs, ["r"], domain="onnx", **arguments)


def of_microsoft(type: str, inputs: str, output: str = "r", **arguments: Any) -> OperatorDef:
    return OperatorDef.of(type, inputs.split(), [output], domain=MICROSOFT, **arguments)


ROWS = OperatorDef.of("Flatten", ["q"], ["f"])
MATRIX = np.random.default_rng(2).integers(-127, 128, (256, 5)).astype(np.int8)
PRODUCT = {"m": MATRIX, "ms": SCALES[:5], "mz": np.zeros(5, np.int8), "b": BIAS[:5]}
WEIGHTS = {"w": FILTERS, "ws": SCALES, "wz": np.zeros(8, np.int8), "b": BIAS}
OFF_MIDDLE = {
    **WEIGHTS,
    "w": (FILTERS.astype(np.int16) + 127).astype(np.uint8),
    "ws": np.float32(0.01),
    "wz": np.array(90, np.uint8),
}
Case = Tuple[List[OperatorDef], Tuple[float, int], Dict[str, Any]]
CASES: Dict[str, Case] = {
    "conv": ([conv(pads=[1, 1, 1, 1])], (0.1, 3), WEIGHTS),
    "conv with strides and dilations": ([conv(strides=[2, 2], dilations=[1, 2], pads=[1, 2, 0, 1])], (0.1, 3), WEIGHTS),
    "depthwise conv": ([conv("d", group=4)], (0.05, 3), {**WEIGHTS, "d": FILTERS[:, :1]}),
    "conv of unsigned weights": (
        [conv()],
        (0.1, 3),
        {
            **WEIGHTS,
            "w": (FILTERS.astype(np.int16) + 128).astype(np.uint8),
            "ws": np.float32(0.01),
            "wz": np.array(128, np.uint8),
        },
    ),
    "matmul": (
        [ROWS, OperatorDef.of("QLinearMatMul", ["f", "s", "z", "m", "ms", "mz", "t", "u"], ["r"], domain="onnx")],
        (0.3, 5),
        PRODUCT,
    ),
    "gemm": ([ROWS, of_microsoft("QGemm", "f s z m ms mz b t u")], (0.3, 5), PRODUCT),
    "gemm of rows": (
        [ROWS, of_microsoft("QGemm", "f s z m ms mz b t u", transB=1)],
        (0.3, 5),
        {**PRODUCT, "m": MATRIX.T},
    ),
    "add": ([of_microsoft("QLinearAdd", "q s z q s z t u")], (0.09, 3), {}),
    "mul": ([of_microsoft("QLinearMul", "q s z q s z t u")], (0.2, -100), {}),
    "sigmoid": ([of_microsoft("QLinearSigmoid", "q s z t u")], (1 / 256, -128), {}),
    "sigmoid of another scale": ([of_microsoft("QLinearSigmoid", "q s z t u")], (1 / 200, -100), {}),
    "leaky relu": ([of_microsoft("QLinearLeakyRelu", "q s z t u", alpha=0.2)], (0.03, -100), {}),
    "softmax": ([of_microsoft("QLinearSoftmax", "q s z t u", opset=13)], (1 / 255, -128), {}),
    "concat": ([of_microsoft("QLinearConcat", "t u q s z q s z", axis=1)], (0.06, 3), {}),
    "global average": ([of_microsoft("QLinearGlobalAveragePool", "q s z t u")], (0.01, 3), {}),
    "mean": ([of_microsoft("QLinearReduceMean", "q s z t u", axes=[1], keepdims=0)], (0.03, 3), {}),
    "average": ([of_microsoft("QLinearAveragePool", "q s z t u", kernel_shape=[2, 2], strides=[2, 2])], (0.04, 3), {}),
    "pool between layers": (
        [
            OperatorDef.of("MaxPool", ["q"], ["p"], domain="onnx", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
            of_microsoft("QLinearAdd", "p s z p s z t u"),
        ],
        (0.09, 3),
        {},
    ),
}
OFF_MIDDLE_CASES: Dict[str, Case] = {
    "conv": ([conv(strides=[2, 2], pads=[1, 0, 2, 1])], (0.15, 3), OFF_MIDDLE),
    "depthwise conv": ([conv("d", group=4)], (0.15, 3), {**OFF_MIDDLE, "d": OFF_MIDDLE["w"][:, :1]}),
    "conv of int8": ([conv(pads=[1, 1, 1, 1])], (0.15, 3), {**OFF_MIDDLE, "w": FILTERS, "wz": np.int8(-38)}),
    "gemm": (
        [ROWS, of_microsoft("QGemm", "f s z m ms mz b t u")],
        (0.9, 5),
        {**PRODUCT, "m": (MATRIX.astype(np.int16) + 127).astype(np.uint8), "ms": np.float32(0.01), "mz": np.uint8(70)},
    ),
}
TURNS = (("q", "l", [0, 2, 3, 1]), ("e", "r", [0, 3, 1, 2]))  # channels last before an operator, first behind it
ROUNDED_TWICE = ("sigmoid of another scale", "softmax", "average", "mean")  # in TFLite


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", CASES)
def test_an_operator_on_integers_is_at_most_a_step_away(name: str, dtype: str) -> None:
    assert_a_step_away(CASES[name], dtype, 0.5 if name in ROUNDED_TWICE else 0.15)


@pytest.mark.parametrize("name", OFF_MIDDLE_CASES)
def test_weights_that_are_no_int8_are_computed_on_uint8(name: str) -> None:
    assert_a_step_away(OFF_MIDDLE_CASES[name], "uint8", 0.15)


def assert_a_step_away(case: Case, dtype: str, most: float) -> None:
    """LiteRT's outputs are those of the pair, but for a share of at most ``most``, which are a step away."""
    ops, scale, weights = case
    pair = integer_pair(dtype, ops, scale, **weights)
    x = np.random.default_rng(0).uniform(-6, 6, (1, 4, 8, 8)).astype(np.float32)
    with armnet.Predictor(pair, threads=1) as predictor:
        wanted = np.asarray(predictor.run({"x": x})["y"])
    found = run_written(pair, {"x": x})[1]["y"]
    assert len(np.unique(wanted)) >= 4  # it does not saturate
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1.01 * scale[0])  # step
    assert np.mean(np.abs(found - wanted) > 0.5 * scale[0]) < most


def test_uint8_between_layers_is_int8_all_the_way() -> None:
    ops = [of_microsoft("QLinearAdd", "q s z q s z t u", "a"), of_microsoft("QLinearAdd", "a t u a t u t u")]
    pair = integer_pair("uint8", ops, (0.09, 3))
    model, _ = run_written(pair, {"x": np.ones((1, 4, 8, 8), np.float32)})
    assert types_of(model) == ["QUANTIZE", "ADD", "ADD", "DEQUANTIZE"]


@pytest.mark.parametrize("name", ["ConvTranspose", "Resize"])
def test_uint8_pictures_are_enlarged(name: str) -> None:
    """A scale for each filter makes int8 of them; none of the transpositions around the operators is left."""
    last, first = (OperatorDef.of("Transpose", [a], [b], axes=axes) for a, b, axes in TURNS)
    size = np.array([16, 16], np.int32)
    filters = (np.moveaxis(FILTERS, 1, -1).astype(np.int16) + 128).astype(np.uint8)
    scales = {"X_scale": SCALE, "X_zero_point": MIDDLE["uint8"], "Y_scale": 0.2, "Y_zero_point": 131}
    inner = OperatorDef.of("QuantizedConvTranspose", ["l", "w", "size", "b"], ["e"], domain="tflite").with_args(
        strides=[2, 2], auto_pad="SAME_UPPER", W_scales=SCALES.tolist(), W_zero_point=128, **scales
    )
    weights, scale, made = {"w": filters, "size": size, "b": BIAS}, (0.2, 3), ["QUANTIZE", "TRANSPOSE_CONV"]
    if name == "Resize":
        inner = OperatorDef.of("QuantizedResizeBilinear", ["l", "size"], ["e"], domain="tflite", half_pixel_centers=1)
        weights, scale, made = {"size": size}, (SCALE, MIDDLE["int8"]), ["QUANTIZE", "QUANTIZE", "RESIZE_BILINEAR"]
    pair = integer_pair("uint8", [last, inner, first], scale, **weights)
    x = np.random.default_rng(0).uniform(-6, 6, (1, 4, 8, 8)).astype(np.float32)
    with armnet.Predictor(pair, threads=1) as predictor:
        wanted = np.asarray(predictor.run({"x": x})["y"])
    model, found = run_written(pair, {"x": x})
    assert types_of(model) == [*made, *(["QUANTIZE"] if name == "Resize" else []), "DEQUANTIZE"]
    assert len(np.unique(wanted)) > 20
    assert_close(found["y"], wanted)


@pytest.mark.parametrize(("dtype", "scales"), [("int8", np.float32(1)), ("uint8", np.ones(8, np.float32))])
def test_weights_that_fit_no_kernel_are_refused(dtype: str, scales: Any) -> None:
    """The older kernels have one scale and no int8."""
    with pytest.raises(
        OperatorError, match=r"do not fit into int8, and TFLite's other kernels .* quantise the network with weights"
    ):
        run_written(integer_pair(dtype, [conv()], (0.1, 3), **{**OFF_MIDDLE, "ws": scales}), {})


@pytest.mark.parametrize(("dtype", "weights"), [("int8", WEIGHTS), ("uint8", WEIGHTS), ("uint8", OFF_MIDDLE)])
def test_integers_read_by_another_scale_are_refused(dtype: str, weights: Dict[str, Any]) -> None:
    """A tensor of TFLite's has one scale; ONNX's readers each say their own."""
    convolution = OperatorDef.of(
        "QLinearConv", ["q", "other", "z", "w", "ws", "wz", "t", "u", "b"], ["r"], domain="onnx"
    )
    with pytest.raises(OperatorError, match="reads integers with another scale"):
        run_written(integer_pair(dtype, [convolution], (0.1, 3), **weights, other=np.float32(0.1)), {})
