"""Tabular models: strings go in and come out, maps become matrices."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from device_tests.suite.tolerance import assert_close
from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from tests.support.forests import forest, rows

LABELS = ["no", "perhaps", "ja"]
TREES = 3


def model(nodes: Sequence[onnx.NodeProto], inputs: Dict[str, Any], outputs: Sequence[Any]) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(name, kind, [None, size]) for name, (kind, size) in inputs.items()]
    graph = helper.make_graph(list(nodes), "tabular", given, list(outputs))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def ml(type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(type, inputs, outputs, domain="ai.onnx.ml", **attributes)


def answers(proto: onnx.ModelProto, feeds: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What the pair computes, plain and optimised."""
    pair = export(proto)
    found = []
    for one in (pair, optimize(pair)):
        with Predictor(one, threads=1) as predictor:
            found.append(predictor.run(feeds))
    return found


def test_a_forest_with_string_labels_predicts_as_in_onnxruntime() -> None:
    random = np.random.RandomState(0)
    trees = ml(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "scores"],
        classlabels_strings=LABELS,
        **forest(random, "class", len(LABELS), trees=TREES),
    )
    zipped = ml("ZipMap", ["scores"], ["by_label"], classlabels_strings=LABELS)
    kind = helper.make_map_type_proto(
        onnx.TensorProto.STRING, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    proto = model(
        [trees, zipped],
        {"x": (onnx.TensorProto.FLOAT, 5)},
        [
            helper.make_tensor_value_info("label", onnx.TensorProto.STRING, [None]),
            helper.make_value_info("by_label", helper.make_sequence_type_proto(kind)),
        ],
    )
    x = rows(random, 12)
    labels, maps = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    for found in answers(proto, {"x": x}):
        assert found["label"].tolist() == list(labels)
        expected = np.array([[by_label[label] for label in LABELS] for by_label in maps], np.float32)
        assert_close(found["by_label"], expected, terms=TREES)


def test_text_goes_in() -> None:
    encoded = ml("OneHotEncoder", ["word"], ["bits"], cats_strings=["a", "ü"])
    proto = model(
        [encoded, helper.make_node("Squeeze", ["bits", "axis"], ["y"])],
        {"word": (onnx.TensorProto.STRING, 1)},
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 2])],
    )
    proto.graph.initializer.append(helper.make_tensor("axis", onnx.TensorProto.INT64, [1], [1]))
    for words in (np.array([["ü"], ["b"], ["a"]]), np.array([["ü"], ["b"], ["a"]], object)):
        for found in answers(proto, {"word": words}):
            assert found["y"].tolist() == [[0, 1], [0, 0], [1, 0]]
