"""Branches and loops become graphs of their own, which LiteRT runs; what it cannot run is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from optimize import optimize
from runtime_arm.errors import ArmnetError
from runtime_arm.pair.pair import Pair
from tests.exporter.tflite.test_control import choosing, looping
from tests.optimize.nets import numbers

pytest.importorskip("onnx", reason="onnx is not installed to write models with")
pytest.importorskip("tflite", reason="tflite is not installed to write models with")
pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed to run models with")

from onnx import TensorProto, helper, numpy_helper

from exporter import export
from exporter.to_tflite.export import to_tflite
from tests.exporter.to_tflite.written import run_written, types_of

W = np.random.default_rng(1).standard_normal((3, 3)).astype(np.float32)
node = helper.make_node


def value(name: str, kind: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(name: str, nodes: List[Any], inputs: List[Any], outputs: List[Any]) -> Any:
    return helper.make_graph(nodes, name, inputs, outputs)


FLOATS = value("t", TensorProto.FLOAT, (2, 3))
BODY_INPUTS = [
    value("i", TensorProto.INT64, ()),
    value("go", TensorProto.BOOL, ()),
    value("s", TensorProto.FLOAT, (2, 3)),
]


def branching() -> Any:
    """x W or relu(x) + x, by a flag; an input and a weight from around, and an input that is a result itself."""
    then = graph(
        "then", [node("MatMul", ["x", "w"], ["t"]), node("Identity", ["x"], ["u"])], [], [FLOATS, value("u", 1, (2, 3))]
    )
    steps = [node("Relu", ["x"], ["r"]), node("Add", ["r", "x"], ["t2"]), node("Neg", ["x"], ["u2"])]
    other = graph("other", steps, [], [value("t2", 1, (2, 3)), value("u2", 1, (2, 3))])
    nodes = [node("If", ["flag"], ["p", "q"], then_branch=then, else_branch=other), node("Add", ["p", "q"], ["y"])]
    return [value("flag", TensorProto.BOOL, (1,)), value("x", 1, (2, 3))], nodes


def loops(counted: bool, conditional: bool) -> Any:
    """s = s W + x until enough iterations were made, or with a condition until s is large."""
    steps = [
        node("MatMul", ["s", "w"], ["m"]),
        node("Add", ["m", "x"], ["next"]),
        node("ReduceMax", ["next"], ["most"], keepdims=0),
        node("Less", ["most", "limit"], ["on"]),
    ]
    body = graph("body", steps, BODY_INPUTS, [value("on", TensorProto.BOOL, ()), value("next", 1, (2, 3))])
    given = ["trips" if counted else "", "yes" if conditional else "", "x"]
    nodes = [node("Loop", given, ["last"], body=body), node("Relu", ["last"], ["y"])]
    return [*([value("trips", TensorProto.INT64, ())] if counted else []), value("x", 1, (2, 3))], nodes


def pair_of(made: Any, folder: Path) -> Pair:
    import onnx

    inputs, nodes = made
    weights = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.float32(50), "limit")]
    weights.append(numpy_helper.from_array(np.bool_(True), "yes"))
    made_graph = helper.make_graph(nodes, "net", inputs, [value("y", 1, (2, 3))], weights)
    onnx.save(
        helper.make_model(made_graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "n.onnx"
    )
    return export(folder / "n.onnx")


X = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch(flag: bool, tmp_path: Path) -> None:
    pair = pair_of(branching(), tmp_path)
    feeds = {"flag": np.array([flag]), "x": X}
    for one in (pair, optimize(pair)):
        model, found = run_written(one, feeds)
        assert "IF" in types_of(model)
        assert len(model.graphs) == 3
        assert_network_close(found["y"], numbers(one, feeds)["y"])


@pytest.mark.parametrize(("trips", "conditional"), [(None, True), (0, True), (1, False), (3, False), (1000, True)])
def test_a_loop(trips: Any, conditional: bool, tmp_path: Path) -> None:
    pair = pair_of(loops(trips is not None, conditional), tmp_path)
    feeds = {"x": X} if trips is None else {"trips": np.int64(trips), "x": X}
    for one in (pair, optimize(pair)):
        model, found = run_written(one, feeds)
        assert "WHILE" in types_of(model)
        assert_network_close(found["y"], numbers(one, feeds)["y"])


def test_files_of_tflite_come_back(tmp_path: Path) -> None:
    for data, feeds in (
        (choosing(), {"flag": np.array(True), "a": X, "b": X + 1}),
        (looping(), {"count": np.array(3, np.int32), "x": np.array([1, 2], np.float32)}),
    ):
        (tmp_path / "one.tflite").write_bytes(data)
        pair = export(tmp_path / "one.tflite")
        (tmp_path / "two.tflite").write_bytes(to_tflite(pair))
        again = export(tmp_path / "two.tflite")
        wanted, found = numbers(pair, feeds), numbers(again, feeds)
        for result, same in zip(wanted.values(), found.values()):
            np.testing.assert_array_equal(same, result)


def test_results_that_grow_are_refused(tmp_path: Path) -> None:
    steps = [node("Add", ["s", "x"], ["next"]), node("Identity", ["go"], ["on"]), node("Neg", ["s"], ["kept"])]
    outputs = [value("on", TensorProto.BOOL, ()), value("next", 1, (2, 3)), value("kept", 1, (2, 3))]
    body = graph("body", steps, BODY_INPUTS, outputs)
    nodes = [node("Loop", ["trips", "", "x"], ["last", "all"], body=body), node("Relu", ["last"], ["y"])]
    pair = pair_of(([value("trips", TensorProto.INT64, ()), value("x", 1, (2, 3))], nodes), tmp_path)
    with pytest.raises(ArmnetError, match=r"onnx.Loop.*results that grow with each iteration"):
        to_tflite(pair)
