"""onnxruntime's operators that ONNX's can express: the translated model computes what onnxruntime computes."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import model, one_node, run, types, value

RNG = np.random.default_rng(0)


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def byte(*shape: int, dtype: str = "uint8") -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.asarray(RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def onnxruntime_outputs(proto: onnx.ModelProto, inputs: Sequence[Any]) -> List[Any]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs))))


def assert_as_onnxruntime(
    proto: onnx.ModelProto, inputs: Sequence[Any], terms: int, amplification: float = 1.0
) -> None:
    for actual, expected in zip(run(proto, *inputs), onnxruntime_outputs(proto, inputs)):
        assert_close(actual, expected, terms=terms, amplification=amplification, magnitude=np.abs(expected).max() + 3)


ACTIVATIONS: Dict[str, List[float]] = {
    "": [],
    "Relu": [],
    "Tanh": [],
    "Sigmoid": [],
    "LeakyRelu": [0.3],
    "Clip": [-0.5, 0.75],
    "HardSigmoid": [0.3, 0.6],
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("operands", [2, 3, 4])
def test_fused_conv(activation: str, operands: int) -> None:
    x, w = real(2, 4, 7, 6), real(6, 2, 3, 3)
    inputs = [x, w, real(6), real(2, 6, 7, 6)][:operands]
    attributes: Dict[str, Any] = {"group": 2, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    attributes.update({"activation": activation} if activation else {})
    attributes.update({"activation_params": ACTIVATIONS[activation]} if ACTIVATIONS[activation] else {})
    proto = one_node("FusedConv", inputs, domain="com.microsoft", **attributes)
    assert_as_onnxruntime(proto, inputs, terms=20)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.2}),
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.6}),
    ],
)
@pytest.mark.parametrize("operands", [2, 3])
def test_fused_gemm(activation: str, parameters: Dict[str, float], operands: int) -> None:
    inputs = [real(5, 3), real(4, 5), real(4)][:operands]
    proto = one_node(
        "FusedGemm",
        inputs,
        transA=1,
        transB=1,
        alpha=0.5,
        beta=2.0,
        activation=activation,
        domain="com.microsoft",
        **parameters,
    )
    assert_as_onnxruntime(proto, inputs, terms=6)


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((3, 4), (4, 5), {}),
        ((3, 4), (4, 5), {"alpha": 0.25}),
        ((4, 3), (4, 5), {"transA": 1}),
        ((2, 3, 4), (2, 5, 4), {"transB": 1, "alpha": 2.0}),
        ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1}),
        ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
        ((4, 2, 3), (4, 2, 5), {"transBatchA": 1, "transA": 1, "transBatchB": 1}),
        ((3, 2, 6, 4), (5, 2, 6, 4), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
        ((4,), (4, 5), {"transA": 1}),
    ],
)
def test_fused_mat_mul(a: Sequence[int], b: Sequence[int], attributes: Dict[str, Any]) -> None:
    inputs = [real(*a), real(*b)]
    assert_as_onnxruntime(one_node("FusedMatMul", inputs, domain="com.microsoft", **attributes), inputs, terms=4)


@pytest.mark.parametrize(
    ("type", "shapes", "attributes"),
    [
        ("Gelu", [(3, 5)], {}),
        ("BiasGelu", [(3, 5), (5,)], {}),
        ("FastGelu", [(3, 5)], {}),
        ("FastGelu", [(3, 5), (5,)], {}),
        ("QuickGelu", [(3, 5)], {}),
        ("QuickGelu", [(3, 5)], {"alpha": 0.7}),
    ],
)
def test_gelu(type: str, shapes: Sequence[Sequence[int]], attributes: Dict[str, Any]) -> None:
    inputs = [real(*shape) * 2 for shape in shapes]
    # onnxruntime has the constants of FastGelu with six digits
    amplification = 20.0 if type == "FastGelu" else 1.0
    assert_as_onnxruntime(one_node(type, inputs, domain="com.microsoft", **attributes), inputs, 8, amplification)


@pytest.mark.parametrize("operands", [3, 4, 5])
@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_skip_layer_normalization(operands: int, skip: Sequence[int]) -> None:
    inputs = [real(2, 3, 8), real(*skip), real(8), real(8), real(8)][:operands]
    names = list("abcde")[:operands]
    node = onnx.helper.make_node(
        "SkipLayerNormalization", names, ["y", "", "", "total"], domain="com.microsoft", epsilon=1e-5
    )
    proto = model([node], [value(n, x.shape) for n, x in zip(names, inputs)], ["y", "total"])
    assert_as_onnxruntime(proto, inputs, terms=8, amplification=4.0)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_qlinear_conv_with_channels_last(last: int, bias: bool) -> None:
    x, w = byte(1, 6, 7, 4) if last else byte(1, 4, 6, 7), byte(5, 4, 3, 3, dtype="int8")
    inputs: List[Any] = [
        x,
        np.float32(0.1),
        np.uint8(120),
        w,
        RNG.uniform(0.1, 0.2, 5).astype(np.float32),
        np.zeros(5, np.int8),
        np.float32(6.0),
        np.uint8(100),
    ]
    inputs += [RNG.integers(-999, 999, 5).astype(np.int32)] if bias else []
    names = list("abcdefghi")[: len(inputs)]
    node = onnx.helper.make_node(
        "QLinearConv", names, ["y"], domain="com.microsoft", channels_last=last, pads=[1, 1, 1, 1]
    )
    weights = dict(zip(names[1:], inputs[1:]))
    proto = model([node], [value("a", x.shape, np.uint8)], [value("y", None, np.uint8)], weights)
    np.testing.assert_array_equal(run(proto, x)[0], onnxruntime_outputs(proto, [x])[0])


def test_max_pool_with_channels_last() -> None:
    x = byte(2, 7, 6, 3)
    node = onnx.helper.make_node(
        "NhwcMaxPool", ["a"], ["y"], domain="com.microsoft", kernel_shape=[3, 2], strides=[2, 1]
    )
    proto = model([node], [value("a", x.shape, np.uint8)], [value("y", None, np.uint8)])
    np.testing.assert_array_equal(run(proto, x)[0], onnxruntime_outputs(proto, [x])[0])


def test_quantised_operators_become_operators_of_the_same_name() -> None:
    x = byte(2, 3)
    inputs = [x, np.float32(0.5), np.uint8(3), x, np.float32(0.25), np.uint8(7), np.float32(1), np.uint8(9)]
    node = onnx.helper.make_node("QLinearAdd", list("abcdefgh"), ["y"], domain="com.microsoft")
    weights = dict(zip("bcdefgh", inputs[1:]))
    proto = model([node], [value("a", x.shape, np.uint8)], [value("y", None, np.uint8)], weights)
    assert types(proto) == ["com.microsoft.QLinearAdd"]
    np.testing.assert_array_equal(run(proto, x)[0], onnxruntime_outputs(proto, [x])[0])


def test_an_unknown_activation_is_refused() -> None:
    proto = one_node("FusedConv", [real(1, 1, 4, 4), real(1, 1, 3, 3)], domain="com.microsoft", activation="Fancy")
    with pytest.raises(ExportError, match="the activation 'Fancy' is not known"):
        run(proto)


def test_transposing_needs_the_number_of_dimensions() -> None:
    proto = one_node("FusedMatMul", [real(3, 4), real(3, 4)], shapes=[None, [3, 4]], domain="com.microsoft", transA=1)
    with pytest.raises(ExportError, match="number of dimensions of input 0"):
        run(proto)


def test_an_unknown_operator_of_onnxruntime_is_named() -> None:
    with pytest.raises(ExportError, match=r"com\.microsoft\.LongformerAttention"):
        run(one_node("LongformerAttention", [real(2, 3)], domain="com.microsoft"))


def test_a_file_optimised_for_one_machine_is_refused_with_what_to_do() -> None:
    node = onnx.helper.make_node("ReorderInput", ["a"], ["y"], domain="com.microsoft.nchwc")
    proto = model([node], [value("a", (1, 8, 4, 4))], ["y"])
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(ExportError, match=r"optimised this file for one machine.*ORT_ENABLE_EXTENDED"):
        run(proto, real(1, 8, 4, 4))
