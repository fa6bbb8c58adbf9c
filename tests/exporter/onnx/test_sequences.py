"""Sequences and optional values: fed, made, changed and fetched; ONNX's node cases are in test_backend.py."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from exporter import export
from runtime_arm import Predictor
from runtime_arm.errors import ExportError, FeedError, OperatorError
from tests.exporter.onnx.models import model, run, value

PARTS = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 1), np.float32)]


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)


def optional(name: str) -> onnx.ValueInfoProto:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    return helper.make_value_info(name, helper.make_optional_type_proto(tensor))


def node(type: str, inputs: List[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(type, inputs, [output], **attributes)


def test_a_sequence_is_a_list_of_arrays() -> None:
    proto = model([node("Identity", ["s"], "t")], [sequence("s")], [sequence("t")])
    pair = export(proto)
    assert (pair.inputs[0].dtype, pair.inputs[0].shape) == ("object", (None,))
    with Predictor(pair) as predictor:
        for given in (PARTS, tuple(PARTS[:1]), [np.float32(3)]):
            found = predictor.run([given])["t"]
            assert isinstance(found, list)
            assert all(np.array_equal(one, other) for one, other in zip(found, given))
        assert len(predictor.run([[]])["t"]) == 0
        with pytest.raises(FeedError, match="takes a list of arrays"):
            predictor.run([np.ones(3, np.float32)])


def test_what_is_fed_may_change_afterwards() -> None:
    given = [np.zeros(2, np.float32)]
    with Predictor(export(model([node("Identity", ["s"], "t")], [sequence("s")], [sequence("t")]))) as predictor:
        found = predictor.run([given])["t"]
        given[0][:] = 7
        assert not found[0].any()


def test_parts_are_joined_in_another_order() -> None:
    nodes = [
        node("SplitToSequence", ["x", "sizes"], "parts", axis=1),
        node("SequenceAt", ["parts", "first"], "one"),
        node("SequenceErase", ["parts", "first"], "rest"),
        node("SequenceInsert", ["rest", "one"], "turned"),
        node("SequenceLength", ["turned"], "count"),
        node("ConcatFromSequence", ["turned"], "y", axis=1),
    ]
    weights = {"sizes": np.array([2, 3]), "first": np.array(0)}
    for shape in ([2, 5], [None, 5], None):
        proto = model(nodes, [value("x", shape)], ["y", "count"], weights)
        x = np.arange(10, dtype=np.float32).reshape(2, 5)
        y, count = run(proto, x)
        np.testing.assert_array_equal(y, x[:, [2, 3, 4, 0, 1]])
        assert count == 2


def test_a_position_out_of_range_is_refused() -> None:
    nodes = [node("SequenceConstruct", ["x", "x"], "s"), node("SequenceAt", ["s", "i"], "y")]
    with Predictor(export(model(nodes, [value("x", [2]), value("i", [], np.int64)], ["y"]))) as predictor:
        x = np.ones(2, np.float32)
        np.testing.assert_array_equal(predictor.run([x, np.array(-2)])["y"], x)
        with pytest.raises(OperatorError, match="position 2 is out of range for 2 places"):
            predictor.run([x, np.array(2)])


def test_optional_values() -> None:
    nodes = [node("OptionalHasElement", ["o"], "has"), node("Identity", ["o"], "same")]
    with Predictor(export(model(nodes, [optional("o")], ["has", optional("same")], opset=18))) as predictor:
        for given in (np.ones(2, np.float32), None):
            found = predictor.run([given])
            assert found["has"] == (given is not None)
            assert np.array_equal(found["same"], given) if given is not None else found["same"] is None


def test_nothing_has_no_element() -> None:
    nodes = [node("OptionalGetElement", ["o"], "y")]
    with Predictor(export(model(nodes, [optional("o")], ["y"], opset=18))) as predictor:
        np.testing.assert_array_equal(predictor.run([np.ones(2, np.float32)])["y"], [1, 1])
        with pytest.raises(OperatorError, match="the optional value holds nothing"):
            predictor.run([None])


def test_a_body_runs_for_each_element() -> None:
    body = helper.make_graph(
        [node("Mul", ["a", "b"], "c"), node("ReduceMax", ["c"], "d", keepdims=0)],
        "body",
        [value("a", None), value("b", [])],
        [value("c", None), value("d", None)],
    )
    proto = model(
        [helper.make_node("SequenceMap", ["s", "two"], ["t", "largest"], body=body)],
        [sequence("s"), value("two", [])],
        [sequence("t"), sequence("largest")],
    )
    with Predictor(export(proto)) as predictor:
        found = predictor.run([PARTS, np.float32(2)])
    assert all(np.array_equal(one, 2 * other) for one, other in zip(found["t"], PARTS))
    assert [float(one) for one in found["largest"]] == [10, 2]


def test_maps_are_refused_by_name() -> None:
    proto = model([node("Identity", ["m"], "y")], [onnx.ValueInfoProto(name="m")], ["y"])
    proto.graph.input[0].type.map_type.key_type = TensorProto.INT64
    with pytest.raises(ExportError, match="'m' is a map_type; only tensors are supported"):
        export(proto)
