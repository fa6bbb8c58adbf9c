"""Branches, loops and variables of TFLite, as LiteRT runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from exporter import export
from exporter.tflite.original_run import run_tflite
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from runtime_arm.pair.pair import Pair
from tests.support.tflite_models import Graph, Model, interpreter, ours, reference

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")


def exported(folder: Path, data: bytes) -> Pair:
    (folder / "model.tflite").write_bytes(data)
    return export(folder / "model.tflite")


def branch(model: Model, type: str, shape: Any) -> Graph:
    """A graph that combines its two inputs."""
    graph = model.graph(type.lower())
    inputs = [graph.input(name, shape) for name in ("a", "b")]
    graph.outputs = [graph.tensor("c", shape)]
    graph.operator(type, inputs, graph.outputs, f"{type.capitalize()}Options")
    return graph


def choosing() -> bytes:
    """a + b if the flag is set, else a * b."""
    model = Model()
    flag, a, b = model.input("flag", (), "bool"), model.input("a", (2, 3)), model.input("b", (2, 3))
    y = model.tensor("y", (2, 3))
    branch(model, "ADD", (2, 3))
    branch(model, "MUL", (2, 3))
    model.operator("IF", [flag, a, b], [y], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    return model.to_bytes([y])


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_is_taken(tmp_path: Path, condition: bool) -> None:
    feeds = {"flag": np.array(condition), "a": np.full((2, 3), 3, np.float32), "b": np.full((2, 3), 4, np.float32)}
    data = choosing()
    np.testing.assert_array_equal(ours(tmp_path, data, feeds)[0], reference(data, feeds)[0])


def looping() -> bytes:
    """x doubles while the counter is below a limit."""
    model = Model()
    count, x = model.input("count", (), "int32"), model.input("x", (2,))
    results = [model.tensor("last", (), "int32"), model.tensor("y", (2,))]
    condition = model.graph("condition")
    inputs = [condition.input("n", (), "int32"), condition.input("x", (2,))]
    condition.outputs = [condition.tensor("less", (), "bool")]
    condition.operator("LESS", [inputs[0], condition.constant("limit", np.array(7, np.int32))], condition.outputs)
    body = model.graph("body")
    inputs = [body.input("n", (), "int32"), body.input("x", (2,))]
    body.outputs = [body.tensor("next", (), "int32"), body.tensor("doubled", (2,))]
    body.operator("ADD", [inputs[0], body.constant("one", np.array(1, np.int32))], [body.outputs[0]], "AddOptions")
    body.operator("ADD", [inputs[1], inputs[1]], [body.outputs[1]], "AddOptions")
    model.operator("WHILE", [count, x], results, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    return model.to_bytes(results)


@pytest.mark.parametrize("start", [0, 6, 7])
def test_a_loop_runs_while_its_condition_holds(tmp_path: Path, start: int) -> None:
    feeds = {"count": np.array(start, np.int32), "x": np.array([1, 2], np.float32)}
    for result, wanted in zip(ours(tmp_path, looping(), feeds), reference(looping(), feeds)):
        np.testing.assert_array_equal(result, wanted)


def counting() -> bytes:
    """A variable with the initial value 5 that grows by x in each run."""
    model = Model()
    x, handle = model.input("x", (2,)), model.tensor("handle", (), "resource")
    old, new, y = (model.tensor(name, (2,)) for name in ("old", "new", "y"))
    start = model.graph("start")
    inside = start.tensor("handle", (), "resource")
    start.operator("VAR_HANDLE", [], [inside], "VarHandleOptions", Container="", SharedName="total")
    start.operator(
        "ASSIGN_VARIABLE", [inside, start.constant("five", np.full(2, 5, np.float32))], [], "AssignVariableOptions"
    )
    model.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
    model.operator("VAR_HANDLE", [], [handle], "VarHandleOptions", Container="", SharedName="total")
    model.operator("READ_VARIABLE", [handle], [old], "ReadVariableOptions")
    model.operator("ADD", [old, x], [new], "AddOptions")
    model.operator("ASSIGN_VARIABLE", [handle, new], [], "AssignVariableOptions")
    model.operator("MUL", [new, old], [y], "MulOptions")
    return model.to_bytes([y])


@pytest.mark.parametrize("optimized", [False, True])
def test_variables_keep_their_content_from_run_to_run(tmp_path: Path, optimized: bool) -> None:
    pair = exported(tmp_path, counting())
    runner = interpreter(counting())
    wanted: List[Any] = []
    inputs = [np.array(values, np.float32) for values in ([1, 2], [3, 4], [5, 6])]
    for x in inputs:
        runner.set_tensor(runner.get_input_details()[0]["index"], x)
        runner.invoke()
        wanted.append(runner.get_tensor(runner.get_output_details()[0]["index"]).copy())
    with Predictor(optimize(pair) if optimized else pair, threads=1) as predictor:
        for x, expected in zip(inputs, wanted):
            np.testing.assert_array_equal(predictor.run([x])["y"], expected)


def test_variables_are_compared_with_their_own_runtime(tmp_path: Path) -> None:
    """LiteRT has no arrays for handles of variables, and what was read of a variable is gone after a run."""
    path = tmp_path / "counting.tflite"
    path.write_bytes(counting())
    original = run_tflite(path, {"x": np.array([1, 2], np.float32)})
    assert {one.blob: one.value.tolist() for one in original.blobs} == {"new": [6, 7], "y": [30, 35]}


def test_a_graph_that_calls_itself_is_refused(tmp_path: Path) -> None:
    model = Model()
    x, y = model.input("x", (2,)), model.tensor("y", (2,))
    model.operator("CALL", [x], [y], "CallOptions", Subgraph=0)
    with pytest.raises(ExportError, match="nested more than"):
        exported(tmp_path, model.to_bytes([y]))


def test_graphs_that_double_each_other_are_refused(tmp_path: Path) -> None:
    model, deepest = Model(), 15
    for index, graph in enumerate([model, *(model.graph(str(k)) for k in range(1, deepest + 1))]):
        x, half, y = graph.input("x", (2,)), graph.tensor("half", (2,)), graph.tensor("y", (2,))
        graph.outputs = [y]
        if index == deepest:
            graph.operator("ABS", [x], [y])
            continue
        for source, target in ((x, half), (half, y)):
            graph.operator("CALL", [source], [target], "CallOptions", Subgraph=index + 1)
    with pytest.raises(ExportError, match="graphs that run each other expand to more than"):
        exported(tmp_path, model.to_bytes())


def test_a_variable_without_an_initial_value_is_refused(tmp_path: Path) -> None:
    model = Model()
    handle, y = model.tensor("handle", (), "resource"), model.tensor("y", (2,))
    model.operator("VAR_HANDLE", [], [handle], "VarHandleOptions", Container="", SharedName="total")
    model.operator("READ_VARIABLE", [handle], [y], "ReadVariableOptions")
    with pytest.raises(ExportError, match=r"READ_VARIABLE \(operator 1\) -> 'y'.*before it is initialised"):
        exported(tmp_path, model.to_bytes([y]))
