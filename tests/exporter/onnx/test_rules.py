"""The translation of each ONNX operator, which computes what onnxruntime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from exporter.onnx.export import from_onnx
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError
from tests.exporter.onnx.cases import CASES, Case, X, floats, ints
from tests.exporter.onnx.cases_layout import LAYOUT
from tests.exporter.onnx.models import named, one_node, operators

EVERY = [*CASES, *LAYOUT]
IDS = [f"{index}-{case.type}" for index, case in enumerate(EVERY)]


@pytest.mark.parametrize("case", EVERY, ids=IDS)
def test_translation(case: Case) -> None:
    assert "; ".join(operators(one_node(case.type, case.inputs, **case.options))) == case.expected


@pytest.mark.parametrize("case", EVERY, ids=IDS)
def test_numbers(case: Case) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if case.options.get("opset", 18) < 7:
        pytest.skip("onnxruntime knows no opset before 7")
    proto = one_node(case.type, case.inputs, **case.options)
    feeds = {value.name: named(case.inputs)[value.name] for value in proto.graph.input}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    terms = max(np.size(array) for array in case.inputs)  # no sum has more
    with Predictor(from_onnx(proto)) as predictor:
        for result, expected in zip(predictor.run(feeds).values(), session.run(None, feeds)):
            assert_close(result, expected, terms=terms)


@pytest.mark.parametrize("shapes", [None, [[1, 4, 6, "w"], None]])
def test_top_k_of_fewer_elements_is_refused(shapes: Any) -> None:
    proto = one_node("TopK", [X, ints(7)], constants=(1,), outputs=2, shapes=shapes)
    with pytest.raises(ArmnetError, match="K must be from 0 to 6, got 7"):
        Predictor(from_onnx(proto)).run([X])


@pytest.mark.parametrize(("type", "of_nothing"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_the_maximum_and_minimum_of_nothing_are_infinite(type: str, of_nothing: float) -> None:
    pair = from_onnx(one_node(type, [floats(2, 3)], opset=13, axes=[0], shapes=[["n", 3]]))
    assert Predictor(pair).run([np.zeros((0, 3), np.float32)])["y"].tolist() == [[of_nothing] * 3]


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [
        ((0, 4), (0, 0), (0, 4)),
        ((4, 0), (0, 0), (4, 0)),
        ((2, 0, 8), (0, -1, 4), (2, 0, 4)),
        ((0, 4), (0, 2, 2), (0, 2, 2)),
    ],
)
def test_zeros_in_a_shape_copy_dimensions_of_empty_blobs(shape: Any, wanted: Any, expected: Any) -> None:
    for constants, declared in (((1,), [list("nchw"[: len(shape)]), None]), ((1,), None), ((), None)):
        predictor = Predictor(
            from_onnx(
                one_node("Reshape", [np.zeros(shape, np.float32), ints(*wanted)], constants=constants, shapes=declared)
            )
        )
        feeds = [np.zeros(shape, np.float32), *([] if constants else [ints(*wanted)])]
        assert predictor.run(feeds)["y"].shape == expected


def test_groups_of_scales_that_are_not_known_are_normalised() -> None:
    x, scale, bias = floats(2, 4, 3), floats(2), floats(2)
    proto = one_node("GroupNormalization", [x, scale, bias], opset=18, num_groups=2, shapes=[["n", "c", 3], None, None])
    grouped = x.reshape(2, 2, 6).astype(np.float64)
    normal = (grouped - grouped.mean(axis=2, keepdims=True)) / np.sqrt(grouped.var(axis=2, keepdims=True) + 1e-5)
    expected = normal.reshape(2, 2, 2, 3) * scale.reshape(1, 2, 1, 1) + bias.reshape(1, 2, 1, 1)
    with Predictor(from_onnx(proto)) as predictor:
        y = predictor.run([x, scale, bias])["y"]
    # ONNX's definition takes the variance as the difference of two means of squares, which lie close together.
    amplification = float(((grouped**2).mean(axis=2) / grouped.var(axis=2)).max())
    assert_close(y, expected.reshape(x.shape).astype(np.float32), terms=6, amplification=amplification)


def test_outputs_saved_for_the_backward_pass_are_dropped() -> None:
    proto = one_node("BatchNormalization", [X, *[floats(4)] * 4], opset=9, outputs=5, constants=(1, 2, 3, 4))
    del proto.graph.output[1:]
    mean, variance = (f(X, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var))
    expected = (X - mean) / np.sqrt(variance + 1e-5) * floats(4, 1, 1) + floats(4, 1, 1)
    with Predictor(from_onnx(proto)) as predictor:
        assert_close(predictor.run([X])["y"], expected, terms=X.size)


def test_caffe2_compatible_nets_keep_caffe2s_operators() -> None:
    for type, inputs, shapes in (("ReduceMax", [X], [[1, 4, 6, "w"]]), ("TopK", [X, ints(2)], [[1, 4, 6, "w"], None])):
        proto = one_node(type, inputs, constants=(1,) if len(inputs) > 1 else (), outputs=len(inputs), shapes=shapes)
        assert [op.domain for op in export(proto, caffe2_compatible=True).predict_net.op] == [""]
