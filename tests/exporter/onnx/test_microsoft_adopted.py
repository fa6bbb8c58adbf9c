"""Operators that onnxruntime had before ONNX adopted them: the translated model computes what onnxruntime computes."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import model, one_node, run, value
from tests.exporter.onnx.test_microsoft import assert_as_onnxruntime, byte, onnxruntime_outputs, real

MS = "com.microsoft"


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, -1, 2])
def test_trilu(upper: int, diagonal: Any) -> None:
    inputs = [real(2, 3, 4), *([] if diagonal is None else [np.asarray(diagonal, np.int64)])]
    proto = one_node("Trilu", inputs, domain=MS, upper=upper)
    np.testing.assert_array_equal(run(proto, *inputs)[0], onnxruntime_outputs(proto, inputs)[0])


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("ends", [[1, 9], [1, 9, 3], [7.5, 1.0, -1.5]])
def test_range(ends: Sequence[Any], shape: Sequence[int]) -> None:
    inputs = [np.full(shape, end, np.int64 if isinstance(end, int) else np.float32) for end in ends]
    proto = one_node("Range", inputs, domain=MS)
    np.testing.assert_array_equal(run(proto, *inputs)[0], onnxruntime_outputs(proto, inputs)[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_nd(dtype: Any) -> None:
    inputs = [real(2, 3, 4), np.array([[0, -1], [1, 2]], dtype)]
    proto = one_node("GatherND", inputs, domain=MS)
    np.testing.assert_array_equal(run(proto, *inputs)[0], onnxruntime_outputs(proto, inputs)[0])


@pytest.mark.parametrize("axis", [-2, -1, 0, 1, 2])
def test_expand_dims(axis: int) -> None:
    inputs = [real(2, 3), np.int32(axis)]
    proto = one_node("ExpandDims", inputs, domain=MS, constants=[1])
    expected = onnxruntime_outputs(proto, inputs[:1])[0]
    actual = run(proto, *inputs[:1])[0]
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
@pytest.mark.parametrize("rows", [False, True])
def test_pad(mode: str, rows: bool) -> None:
    pads = np.array([0, 1, 1, 2], np.int64)
    inputs = [real(3, 4), pads[None] if rows else pads, np.array([1.5], np.float32)]
    proto = one_node("Pad", inputs, domain=MS, constants=[1, 2], mode=mode)
    np.testing.assert_array_equal(run(proto, *inputs[:1])[0], onnxruntime_outputs(proto, inputs[:1])[0])


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_unique(outputs: int) -> None:
    inputs = [np.array([2, 1, 1, 3, 4, 3], np.float32)]
    proto = one_node("Unique", inputs, domain=MS, outputs=3)
    del proto.graph.output[outputs:]
    for actual, expected in zip(run(proto, *inputs), onnxruntime_outputs(proto, inputs)):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode: str, padding: str) -> None:
    inputs = [real(1, 2, 5, 6), real(1, 3, 4, 2)]
    proto = one_node("GridSample", inputs, domain=MS, mode=mode, padding_mode=padding, align_corners=1)
    assert_as_onnxruntime(proto, inputs, terms=16)


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 2, 1]])
@pytest.mark.parametrize("bias", [False, True])
def test_conv_transpose_with_dynamic_pads(pads: List[int], bias: bool) -> None:
    inputs = [real(1, 3, 5, 4), real(3, 2, 3, 3), np.array(pads, np.int64), *([real(2)] if bias else [])]
    attributes: Dict[str, Any] = {"strides": [2, 2], "kernel_shape": [3, 3], "output_padding": [1, 0]}
    proto = one_node("ConvTransposeWithDynamicPads", inputs, domain=MS, constants=[2], **attributes)
    assert_as_onnxruntime(proto, [inputs[0], inputs[1], *inputs[3:]], terms=27)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances(metric: str) -> None:
    inputs = [real(3, 7), real(5, 7)]
    proto = one_node("CDist", inputs, domain=MS, metric=metric)
    # onnxruntime has the squares as a^2 - 2ab + b^2, whose terms are larger than the distances
    assert_as_onnxruntime(proto, inputs, terms=21, amplification=4.0)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_quantised_embed_layer_normalization(segments: bool, mask: bool) -> None:
    rng = np.random.default_rng(0)
    ids, kinds = rng.integers(0, 9, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
    weights: Dict[str, Any] = {}
    for name, shape in {"word": (9, 8), "place": (6, 8), "kind": (2, 8), "gamma": (8,), "beta": (8,)}.items():
        weights[name] = byte(*shape)
        weights[f"{name}_scale"] = np.float32(rng.uniform(0.01, 0.02))
        weights[f"{name}_zero"] = np.uint8(rng.integers(90, 160))
    marks = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    tables = ["word", "place", "kind", "gamma", "beta"]
    names = ["ids", "kinds", *tables, "marks", *(f"{t}_scale" for t in tables), *(f"{t}_zero" for t in tables)]
    if not segments:
        names = ["" if name.startswith("kind") else name for name in names]
    if not mask:
        names[names.index("marks")] = ""
    node = onnx.helper.make_node("QEmbedLayerNormalization", names, ["y", "lengths"], domain=MS, epsilon=1e-5)
    given = {"ids": ids, "kinds": kinds, "marks": marks}
    inputs = {name: array for name, array in given.items() if name in names}
    used = {name: array for name, array in weights.items() if name in names}
    declared = [value(name, array.shape, array.dtype) for name, array in inputs.items()]
    outputs = [value("y", [2, 5, 8]), value("lengths", [2], np.int32)]
    proto = model([node], declared, outputs, used)
    actual, expected = run(proto, *inputs.values()), onnxruntime_outputs(proto, list(inputs.values()))
    assert_close(actual[0], expected[0], terms=8, amplification=4.0, magnitude=np.abs(expected[0]).max() + 3)
    np.testing.assert_array_equal(actual[1], expected[1])


@pytest.mark.parametrize(
    ("type", "inputs", "attributes", "message"),
    [
        ("GridSample", [real(1, 1, 3, 3), real(1, 2, 2, 2)], {"mode": "fancy"}, "the mode 'fancy' is not known"),
        ("CDist", [real(2, 3), real(4, 3)], {"metric": "cosine"}, "the metric 'cosine' is not known"),
        (
            "ConvTransposeWithDynamicPads",
            [real(1, 1, 3, 3), real(1, 1, 3, 3), np.zeros(4, np.int64)],
            {"kernel_shape": [3, 3]},
            "the pads must be constants",
        ),
    ],
)
def test_what_is_not_known_is_refused(
    type: str, inputs: Sequence[Any], attributes: Dict[str, Any], message: str
) -> None:
    with pytest.raises(ExportError, match=message):
        run(one_node(type, inputs, domain=MS, **attributes), *inputs)
