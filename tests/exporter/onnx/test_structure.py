"""Graphs that cannot run are refused with the name of the node; graphs in any order run."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import onnx
import pytest

from device_tests.suite.tolerance import assert_each_close
from exporter.onnx.export import from_onnx
from runtime_arm.errors import ExportError
from tests.exporter.onnx.models import model, run, value

node = onnx.helper.make_node
X = value("x", [2])


def branch(nodes: List[Any], output: str, inputs: Any = ()) -> onnx.GraphProto:
    return onnx.helper.make_graph(nodes, "branch", list(inputs), [value(output, None)])


BAD = {
    r"node 'a' \(Relu\): the graph is cyclic": ([node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"])], ["b"]),
    r"node 'y' \(Relu\): reads 'none', which is neither an input": ([node("Relu", ["none"], ["y"])], ["y"]),
    r"node 'second' \(Tanh\): writes 'y', which node 'y' \(Relu\) writes too": (
        [node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"], name="second")],
        ["y"],
    ),
    r"writes 'x', which an input or initializer writes too": ([node("Relu", ["x"], ["x"])], ["x"]),
    r"writes 'w', which an input or initializer": ([node("Relu", ["x"], ["w"])], ["w"]),
    "'nothing' is neither an input nor an initializer": ([node("Relu", ["x"], ["y"])], ["nothing"]),
    "at least one output and distinct output names": ([node("Relu", ["x"], ["y"])], ["y", "y"]),
    r"distinct output names, it has \[\]": ([node("Relu", ["x"], ["y"])], []),
    "Unheard.*no such operator; `armnet support`": ([node("Unheard", ["x"], ["y"])], ["y"]),
    "does not import an opset of the domain 'my'": ([node("Relu", ["x"], ["y"], domain="my")], ["y"]),
    "attribute 'alpha' must be a float, it is int": ([node("Elu", ["x"], ["y"], alpha=3)], ["y"]),
    "attribute 'axis' must be an integer": ([node("Concat", ["x"], ["y"], axis="one")], ["y"]),
    "input 0 is required": ([node("Clip", [""], ["y"])], ["y"]),
    "attribute 'then_branch' is required": ([node("If", ["p"], ["y"])], ["y"]),
    r"node 'y' \(If\): reads 'none'": (
        [
            node(
                "If",
                ["p"],
                ["y"],
                then_branch=branch([node("Relu", ["none"], ["z"])], "z"),
                else_branch=branch([node("Relu", ["x"], ["z"])], "z"),
            )
        ],
        ["y"],
    ),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_graphs_are_refused_by_name(problem: str) -> None:
    nodes, outputs = BAD[problem]
    inputs = [X, value("p", [], np.bool_)]
    with pytest.raises(ExportError, match=problem) as refusal:
        from_onnx(model(nodes, inputs, outputs, {"w": np.ones(2, np.float32)}))
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith("graph: ")


def test_names_of_inputs_and_initializers_are_distinct() -> None:
    for twice in ("input", "initializer"):
        proto = model([node("Add", ["x", "w"], ["y"])], [X], ["y"], {"w": np.ones(2, np.float32)})
        getattr(proto.graph, twice).append(getattr(proto.graph, twice)[0])
        with pytest.raises(ExportError, match=f"graph: {twice} '[xw]' is defined twice"):
            from_onnx(proto)
        getattr(proto.graph, twice)[1].name = ""
        with pytest.raises(ExportError, match=f"graph: an {twice} has no name"):
            from_onnx(proto)


def test_nodes_in_any_order_run() -> None:
    nodes = [node("Neg", ["b"], ["y"]), node("Add", ["a", "x"], ["b"]), node("Relu", ["x"], ["a"])]
    np.testing.assert_array_equal(run(model(nodes, [X], ["y"]), np.array([-1, 2], np.float32))[0], [1, -4])


def test_subgraphs_count_as_readers() -> None:
    inner = branch([node("Neg", ["late"], ["z"])], "z")
    nodes = [node("If", ["p"], ["y"], then_branch=inner, else_branch=inner), node("Relu", ["x"], ["late"])]
    proto = model(nodes, [X, value("p", [], np.bool_)], ["y"])
    np.testing.assert_array_equal(run(proto, np.array([-1, 2], np.float32), np.array(True))[0], [0, -2])


def test_names_of_sibling_graphs_do_not_meet() -> None:
    """Both branches use the same name, and one of them also the name of the node's output."""
    then = branch([node("Neg", ["x"], ["t"]), node("Relu", ["t"], ["y"]), node("Neg", ["y"], ["z"])], "z")
    other = branch([node("Relu", ["x"], ["t"]), node("Identity", ["t"], ["z"])], "z")
    proto = model([node("If", ["p"], ["y"], then_branch=then, else_branch=other)], [X, value("p", [], np.bool_)], ["y"])
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(run(proto, x, np.array(True))[0], [-1, 0])
    np.testing.assert_array_equal(run(proto, x, np.array(False))[0], [0, 2])


def test_functions_that_call_each_other_in_circles_are_refused() -> None:
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my", 1)]
    functions = [
        onnx.helper.make_function("my", a, ["x"], ["y"], [node(b, ["x"], ["y"], domain="my")], opsets)
        for a, b in (("F", "G"), ("G", "F"))
    ]
    proto = model([node("F", ["x"], ["y"], domain="my")], [X], ["y"], functions=functions)
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    with pytest.raises(ExportError, match=r"my\.F, my\.G call each other in circles"):
        from_onnx(proto)


def test_functions_that_double_each_other_are_refused_before_they_fill_the_memory() -> None:
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my", 1)]
    doubling = [
        onnx.helper.make_function(
            "my",
            f"F{k}",
            ["x"],
            ["y"],
            [node(f"F{k + 1}", ["x"], ["h"], domain="my"), node(f"F{k + 1}", ["h"], ["y"], domain="my")],
            opsets,
        )
        for k in range(30)
    ]
    last = onnx.helper.make_function("my", "F30", ["x"], ["y"], [node("Abs", ["x"], ["y"])], opsets)
    proto = model([node("F0", ["x"], ["y"], domain="my")], [X], ["y"], functions=[*doubling, last])
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    with pytest.raises(ExportError, match="its functions expand to 1073741824 nodes"):
        from_onnx(proto)


def test_functions_of_the_model_are_inlined() -> None:
    opsets = [onnx.helper.make_opsetid("", 18)]
    function = onnx.helper.make_function("my", "Twice", ["x"], ["y"], [node("Add", ["x", "x"], ["y"])], opsets)
    calls = [node("Twice", ["x"], ["a"], domain="my"), node("Twice", ["a"], ["y"], domain="my")]
    proto = model(calls, [X], ["y"], functions=[function])
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    np.testing.assert_array_equal(run(proto, np.array([1, 2], np.float32))[0], [4, 8])


def test_attributes_that_a_call_leaves_out_have_the_functions_defaults() -> None:
    leaky = onnx.helper.make_node("LeakyRelu", ["x"], ["y"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    inner = onnx.helper.make_function(
        "my",
        "Leaky",
        ["x"],
        ["y"],
        [leaky],
        [onnx.helper.make_opsetid("", 18)],
        attribute_protos=[onnx.helper.make_attribute("slope", 0.5)],
    )
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my", 1)]
    outer = onnx.helper.make_function("my", "Outer", ["x"], ["y"], [node("Leaky", ["x"], ["y"], domain="my")], opsets)
    calls = [
        node("Leaky", ["x"], ["a"], domain="my"),
        node("Leaky", ["x"], ["b"], domain="my", slope=0.25),
        node("Outer", ["x"], ["c"], domain="my"),
    ]
    proto = model(calls, [X], ["a", "b", "c"], functions=[inner, outer])
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    results = run(proto, np.array([-4, 2], np.float32))
    assert [list(result) for result in results] == [[-2, 2], [-1, 2], [-2, 2]]


def test_operators_are_replaced_by_the_functions_that_define_them() -> None:
    x = np.linspace(-4, 4, 9).astype(np.float32)
    proto = model([node("MeanVarianceNormalization", ["x"], ["y"], axes=[0])], [value("x", [9])], ["y"])
    y = run(proto, x)[0]
    assert_each_close(y, (x - x.mean()) / x.std(), terms=9)


@pytest.mark.parametrize("opset", [0, 999])
def test_opsets_that_the_installed_onnx_does_not_know_are_refused(opset: int) -> None:
    with pytest.raises(ExportError, match=f"opset {opset} is not supported"):
        from_onnx(model([node("Relu", ["x"], ["y"])], [X], ["y"], opset=opset))


def test_large_concatenations_of_constants_are_not_propagated() -> None:
    joins = [node("Concat", [f"j{i}"] * 64, [f"j{i + 1}"], axis=0) for i in range(7)]
    with pytest.raises(ExportError, match=r"Concat.* bytes, more than"):
        from_onnx(
            model(
                [*joins, node("Gather", ["j7", "x"], ["y"])], [value("x", [2], np.int64)], ["y"], {"j0": np.arange(3)}
            )
        )


def test_the_length_of_a_range_is_checked_before_it_is_expanded() -> None:
    numbers = {"a": np.int64(0), "b": np.int64(1 << 62), "c": np.int64(1)}
    nodes = [node("Range", ["a", "b", "c"], ["r"]), node("Add", ["x", "r"], ["y"])]
    with pytest.raises(ExportError, match=r"Range.* bytes, more than"):
        from_onnx(model(nodes, [value("x", [2], np.int64)], ["y"], numbers))
