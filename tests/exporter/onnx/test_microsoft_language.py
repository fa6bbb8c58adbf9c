"""onnxruntime's fused operators of language and diffusion networks: the translated model computes what it computes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import onnx
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import model, one_node, run, value
from tests.exporter.onnx.test_microsoft import assert_as_onnxruntime, byte, onnxruntime_outputs, real

MICROSOFT = "com.microsoft"


def node_model(
    type: str, inputs: Sequence[Any], outputs: Sequence[str], domain: str = MICROSOFT, **attributes: Any
) -> onnx.ModelProto:
    names = ["" if x is None else f"in_{i}" for i, x in enumerate(inputs)]
    node = onnx.helper.make_node(type, names, outputs, domain=domain, **attributes)
    declared = [value(name, x.shape, x.dtype) for name, x in zip(names, inputs) if x is not None]
    return model([node], declared, [name for name in outputs if name])


def given(inputs: Sequence[Any]) -> List[Any]:
    return [x for x in inputs if x is not None]


@pytest.mark.parametrize("outputs", [["y"], ["y", "", "", "total"]])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_simplified_layer_normalization(outputs: List[str], bias: bool) -> None:
    inputs = [real(2, 3, 8), real(2, 3, 8), real(8), *([real(8)] if bias else [])]
    proto = node_model("SkipSimplifiedLayerNormalization", inputs, outputs, epsilon=1e-5)
    assert_as_onnxruntime(proto, inputs, terms=16, amplification=4.0)


@pytest.mark.parametrize("outputs", [["y"], ["y", "inverse"]])
def test_simplified_layer_normalization(outputs: List[str]) -> None:
    inputs = [real(2, 3, 8), real(8)]
    proto = node_model("SimplifiedLayerNormalization", inputs, outputs, domain="", epsilon=1e-3)
    assert_as_onnxruntime(proto, inputs, terms=16, amplification=4.0)


def test_gemm_fast_gelu() -> None:
    x, w, bias = real(2, 3, 8), real(8, 6), real(6)
    total = np.matmul(x.astype(np.float64), w) + bias
    expected = 0.5 * total * (1 + np.tanh(np.sqrt(2 / np.pi) * (total + 0.044715 * total**3)))
    y = run(node_model("GemmFastGelu", [x, w, bias], ["y"]), x, w, bias)[0]
    assert_close(y, expected.astype(np.float32), terms=32)


def test_bias_add() -> None:
    x, bias, skip = real(2, 5, 8), real(8), real(2, 5, 8)
    y = run(node_model("BiasAdd", [x, bias, skip], ["y"]), x, bias, skip)[0]
    np.testing.assert_array_equal(y, x + bias + skip)


def test_bias_split_gelu() -> None:
    from math import erf

    x, bias = real(2, 5, 8), real(8)
    left, right = np.split((x + bias).astype(np.float64), 2, axis=-1)
    expected = left * right * 0.5 * (1 + np.vectorize(erf)(right / np.sqrt(2)))
    y = run(node_model("BiasSplitGelu", [x, bias], ["y"]), x, bias)[0]
    assert_close(y, expected.astype(np.float32), terms=4)


@pytest.mark.parametrize("axis", [3, 2, 1, -1])
def test_bias_softmax(axis: int) -> None:
    x, bias = real(2, 3, 4, 5), real(2, 1, 1, 5)
    rows = (x + bias).astype(np.float64).reshape((-1, 5 if axis in (3, -1) else int(np.prod(x.shape[axis:]))))
    powers = np.exp(rows)
    expected = (powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape).astype(np.float32)
    y = run(node_model("BiasSoftmax", [x, bias], ["y"], axis=axis, is_inner_broadcast=1), x, bias)[0]
    assert_close(y, expected, terms=64)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("skip", [None, (2, 6), (2, 5, 4, 6)])
def test_group_norm(last: int, activation: int, skip: Optional[Sequence[int]]) -> None:
    x, gamma, beta = real(2, 5, 4, 6), real(6), real(6)
    inputs, total = [x, gamma, beta], x
    if skip is not None:
        inputs += [real(*skip), real(6)][: 1 + last]
        total = x + inputs[3].reshape(2, -1, inputs[3].shape[-1]).reshape((2, 1, 1, 6) if len(skip) == 2 else skip)
        total = total + inputs[4] if last else total
    exact = np.moveaxis(total.astype(np.float64), 3, 1).reshape(2, 3, -1)
    normal = (exact - exact.mean(2, keepdims=True)) / np.sqrt(exact.var(2, keepdims=True) + 1e-4)
    y = np.moveaxis(normal.reshape(2, 6, 5, 4), 1, 3) * gamma + beta
    y = y / (1 + np.exp(-y)) if activation else y
    if not last:
        for index in [0, 3] if skip is not None and len(skip) == 4 else [0]:
            inputs[index] = np.moveaxis(inputs[index], 3, 1)
        y = np.moveaxis(y, 3, 1)
    type = "GroupNorm" if skip is None else "SkipGroupNorm"
    attributes: Dict[str, Any] = {"channels_last": last, "groups": 3, "activation": activation, "epsilon": 1e-4}
    assert_close(run(node_model(type, inputs, ["y"], **attributes), *inputs)[0], y.astype(np.float32), terms=256)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_embed_layer_normalization(segments: bool, places: bool, mask: bool) -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 9, (2, 5)).astype(np.int32)
    kinds = rng.integers(0, 2, (2, 5)).astype(np.int32)
    marks = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    at = rng.integers(0, 7, (2, 5)).astype(np.int32)
    inputs = [words, kinds if segments else None, real(9, 8), real(7, 8), real(2, 8) if segments else None, real(8)]
    inputs += [real(8), marks if mask else None, at if places else None]
    while inputs[-1] is None:
        inputs.pop()
    proto = node_model("EmbedLayerNormalization", inputs, ["y", "counts", "sum"], epsilon=1e-5)
    assert_as_onnxruntime(proto, given(inputs), terms=32, amplification=4.0)


MASKS = {"none": None, "counts": (2,), "ends and starts": (4,), "keys": (2, 8), "all": (2, 5, 8)}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("past", [False, True])
def test_attention_with_projection(mask: str, unidirectional: int, past: bool) -> None:
    shape = MASKS[mask]
    if shape is not None and len(shape) > 1 and not past:
        shape = (*shape[:-1], 5)
    marks = None
    if mask == "counts":
        marks = np.array([3, 5], np.int32)
    elif mask == "ends and starts":
        marks = np.array([4, 5, 0, 1], np.int32) if not unidirectional else np.array([4, 5, 0, 0], np.int32)
    elif shape is not None:
        marks = byte(*shape).astype(np.int32) % 2
        marks[..., 0] = 1
    inputs = [real(2, 5, 12), real(12, 24), real(24), marks, real(2, 2, 2, 3, 4) if past else None]
    while inputs[-1] is None:
        inputs.pop()
    outputs = ["y", "present"] if past else ["y"]
    proto = node_model("Attention", inputs, outputs, num_heads=2, unidirectional=unidirectional)
    assert_as_onnxruntime(proto, given(inputs), terms=64)


def test_attention_with_values_of_another_size() -> None:
    inputs = [real(2, 5, 12), real(12, 8 + 8 + 6), real(22), None, None, real(2, 2, 5, 5)]
    proto = node_model("Attention", inputs, ["y"], num_heads=2, qkv_hidden_sizes=[8, 8, 6])
    assert_as_onnxruntime(proto, given(inputs), terms=64)


def test_quantised_attention() -> None:
    inputs = [
        byte(2, 5, 12),
        byte(12, 24, dtype="int8"),
        real(24),
        np.full((), 0.01, np.float32),
        np.full((), 0.02, np.float32),
        None,
    ]
    inputs += [np.full((), 120, np.uint8), np.full((), 3, np.int8)]
    proto = node_model("QAttention", inputs, ["y"], num_heads=2)
    assert_as_onnxruntime(proto, given(inputs), terms=64)


def test_a_single_query() -> None:
    inputs = [real(2, 1, 8), real(2, 1, 8), real(2, 1, 8), None, None, real(2, 2, 3, 4), real(2, 2, 3, 4)]
    inputs += [None, None, None, real(24)]
    proto = node_model("DecoderMaskedMultiHeadAttention", inputs, ["y", "keys", "values"], num_heads=2)
    packed = node_model(
        "MultiHeadAttention", [*inputs[:3], inputs[10], None, None, *inputs[5:7]], ["y", "k", "v"], num_heads=2
    )
    expected = onnxruntime_outputs(packed, given([*inputs[:3], inputs[10], *inputs[5:7]]))
    for actual, wanted in zip(run(proto, *given(inputs)), expected):
        assert_close(actual, wanted, terms=16)


def test_gemma_rotary_embedding() -> None:
    emb, *states = real(2, 5, 8), *(real(2, 3, 5, 8) for _ in range(4))
    proto = node_model("GemmaRotaryEmbedding", [emb, *states], ["q", "k"])
    sin, cos = (function(emb.astype(np.float64))[:, np.newaxis] for function in (np.sin, np.cos))
    for actual, (x, turned) in zip(run(proto, emb, *states), (states[:2], states[2:])):
        assert_close(actual, (x * cos + turned * sin).astype(np.float32), terms=8)


@pytest.mark.parametrize("attribute", ["do_rotary", "past_present_share_buffer"])
def test_what_attention_lacks_is_named(attribute: str) -> None:
    inputs = [real(2, 5, 12), real(12, 24)]
    with pytest.raises(ExportError, match=f"the attribute {attribute} is not supported"):
        run(one_node("Attention", inputs, domain=MICROSOFT, num_heads=2, **{attribute: 1}))
