"""Whole graphs: dynamic sizes, constant folding, branches and loops, the contents of the pair."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from device_tests.suite.tolerance import assert_close
from exporter import export
from exporter.onnx.export import from_onnx
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError, ExportError
from tests.exporter.onnx.models import model, run, types, value

node = helper.make_node
FLAG = value("p", [], np.bool_)
SCANNED = {"start": (2, 4), "x": (2, 3, 4), "w": (2, 3, 4)}


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def graph(nodes: List[Any], inputs: List[Any], outputs: List[Any], weights: Any = None) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    declared = [value(output, None) if isinstance(output, str) else output for output in outputs]
    return helper.make_graph(nodes, "inner", inputs, declared, tensors)


def flattening(shape: Any) -> onnx.ModelProto:
    """Reshape(x, [size of the first dimension, -1]) in the form that exporters write."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["u"]),
        node("Concat", ["u", "rest"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": np.array(0, np.int64), "axes": ints(0), "rest": ints(-1)}
    return model(nodes, [value("x", shape)], ["y"], weights)


def test_shape_arithmetic_of_static_sizes_is_folded() -> None:
    (reshape,) = from_onnx(flattening([2, 3, 4])).predict_net.op
    assert reshape.get_ints("shape") == (2, -1)


def test_shape_arithmetic_of_dynamic_sizes_stays_and_is_evaluated_when_planning() -> None:
    pair = from_onnx(flattening(["n", 3, "w"]))
    assert [op.type for op in pair.predict_net.op] == ["Shape", "Gather", "ExpandDims", "Concat", "Reshape"]
    assert pair.inputs[0].shape == ("n", 3, "w")
    with Predictor(pair) as predictor:
        for shape in ((2, 3, 4), (5, 3, 1)):
            assert predictor.run([np.zeros(shape, np.float32)])["y"].shape == (shape[0], shape[1] * shape[2])


def test_open_dimensions_have_no_name() -> None:
    shape = from_onnx(flattening(["?", 3, None])).inputs[0].shape
    assert shape == (None, 3, None)


def test_initializers_that_are_also_inputs_are_weights() -> None:
    inputs = [value("x", [2]), value("w", [2])]
    proto = model([node("Add", ["x", "w"], ["y"])], inputs, ["y"], {"w": np.ones(2, np.float32)})
    pair = from_onnx(proto)
    assert [info.name for info in pair.inputs] == ["x"]
    assert pair.predict_net.external_input == ("x", "w")


def test_unused_nodes_are_dropped() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["unused"]), node("Constant", [], ["c"], value_int=3)]
    pair = from_onnx(model(nodes, [value("x", [2])], ["y"], {"w": np.ones(2, np.float32)}))
    assert [op.type for op in pair.predict_net.op] == ["Relu"]
    assert pair.init_net.op == ()


def test_what_nothing_reads_may_be_of_any_type_and_operator() -> None:
    nodes = [
        node("Constant", [], ["text"], value_string="leftover"),
        node("Relu", ["x"], ["y"]),
        node("ImageDecoder", ["labels"], ["upper"]),
        node("Identity", ["upper"], ["unused"]),
    ]
    proto = model(nodes, [value("x", [2])], ["y"])
    proto.graph.initializer.append(helper.make_tensor("labels", TensorProto.COMPLEX64, [1], [0.5j]))
    assert types(proto) == ["Relu"]
    proto.graph.output.append(onnx.ValueInfoProto(name="upper"))
    with pytest.raises(ExportError, match="initializer 'labels': the data type COMPLEX64 is not supported"):
        from_onnx(proto)


def test_inputs_and_constants_may_be_outputs() -> None:
    nodes = [
        node("Identity", ["x"], ["same"]),
        node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
        node("Identity", ["c"], ["d"]),
    ]
    same, c, d, x = run(model(nodes, [value("x", [2])], ["same", "c", "d", "x"]), np.array([3, 4], np.float32))
    assert [list(array) for array in (same, c, d, x)] == [[3, 4], [1, 2], [1, 2], [3, 4]]


def branches() -> Tuple[onnx.GraphProto, onnx.GraphProto]:
    then = graph([node("Mul", ["x", "two"], ["t"])], [], ["t"], {"two": np.array(2, np.float32)})
    other = graph([node("Neg", ["x"], ["e"])], [], ["e"])
    return then, other


def test_a_branch_is_chosen_when_running() -> None:
    then, other = branches()
    proto = model([node("If", ["p"], ["y"], then_branch=then, else_branch=other)], [value("x", ["n"]), FLAG], ["y"])
    x = np.array([1, 2, 3], np.float32)
    assert types(proto) == ["If"]
    assert run(proto, x, np.array(True))[0].tolist() == [2, 4, 6]
    assert run(proto, x, np.array(False))[0].tolist() == [-1, -2, -3]


def test_an_if_with_a_constant_condition_is_replaced_by_its_branch() -> None:
    then, other = branches()
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Greater", ["n", "two"], ["p"]),
        node("If", ["p"], ["y"], then_branch=then, else_branch=other),
    ]
    weights = {"zero": np.array(0, np.int64), "two": np.array(2, np.int64)}
    for size, expected in ((3, ["Mul", "Copy"]), (1, ["Negative", "Copy"])):
        proto = model(nodes, [value("x", [size])], ["y"], weights)
        assert types(proto) == expected
        assert run(proto, np.ones(size, np.float32))[0].tolist() == [2 if size == 3 else -1] * size


def test_a_loop_carries_values_and_reads_what_is_around_it() -> None:
    body = graph(
        [
            node("Add", ["carried", "x"], ["sum"]),
            node("Identity", ["going"], ["goes_on"]),
            node("Identity", ["sum"], ["scanned"]),
        ],
        [value("i", [], np.int64), value("going", [], np.bool_), value("carried", [2])],
        ["goes_on", "sum", "scanned"],
    )
    proto = model(
        [node("Loop", ["trips", "", "start"], ["y", "z"], body=body)],
        [value("x", [2]), value("start", [2]), value("trips", [], np.int64)],
        ["y", "z"],
    )
    y, z = run(proto, np.array([1, 2], np.float32), np.zeros(2, np.float32), np.array(3))
    assert y.tolist() == [3, 6]
    assert z.tolist() == [[1, 2], [2, 4], [3, 6]]


def test_a_loop_may_carry_no_tensors() -> None:
    body = graph(
        [node("Mul", ["i", "i"], ["square"]), node("Identity", ["going"], ["goes_on"])],
        [value("i", [], np.int64), value("going", [], np.bool_)],
        ["goes_on", "square"],
    )
    proto = model([node("Loop", ["trips", ""], ["y"], body=body)], [value("trips", [], np.int64)], ["y"])
    assert run(proto, np.array(4))[0].tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize("dims", [[1, 2], [1, None]])
def test_a_loop_that_never_runs_scans_what_the_file_declares(dims: Any) -> None:
    """How many numbers are not zero depends on data. onnxruntime takes sizes that are not declared for 0."""
    body = graph(
        [node("NonZero", ["x"], ["places"]), node("Identity", ["going"], ["goes_on"])],
        [value("i", [], np.int64), value("going", [], np.bool_)],
        ["goes_on", value("places", dims, np.int64)],
    )
    inputs = [value("trips", [], np.int64), value("x", [2])]
    proto = model([node("Loop", ["trips", ""], ["y"], body=body)], inputs, ["y"])
    x = np.ones(2, np.float32)
    assert run(proto, np.array(3), x)[0].shape == (3, 1, 2)
    if None in dims:
        with pytest.raises(ArmnetError, match="the body never ran"):
            run(proto, np.array(0), x)
    else:
        (y,) = run(proto, np.array(0), x)
        assert (y.shape, y.dtype) == ((0, 1, 2), np.int64)


def test_a_scan_walks_over_a_dimension() -> None:
    body = graph(
        [node("Add", ["state", "element"], ["next"]), node("Identity", ["next"], ["out"])],
        [value("state", [2]), value("element", [2])],
        ["next", "out"],
    )
    proto = model(
        [node("Scan", ["start", "x"], ["y", "z"], body=body, num_scan_inputs=1)],
        [value("start", [2]), value("x", [3, 2])],
        ["y", "z"],
    )
    y, z = run(proto, np.zeros(2, np.float32), np.ones((3, 2), np.float32))
    assert y.tolist() == [3, 3]
    assert z.tolist() == [[1, 1], [2, 2], [3, 3]]


def batched_scan(lengths: str = "") -> onnx.ModelProto:
    """Scan as opset 8 has it: a state, and two sequences, one of which runs backwards, for each sample of a batch."""
    body = graph(
        [
            node("Sub", ["state", "b"], ["less"]),
            node("Add", ["less", "a"], ["next"]),
            node("Mul", ["next", "a"], ["out"]),
        ],
        [value("state", [4]), value("a", [4]), value("b", [4])],
        ["next", "out"],
    )
    scan = node("Scan", [lengths, "start", "x", "w"], ["y", "z"], body=body, num_scan_inputs=2, directions=[0, 1])
    inputs = [value(name, shape) for name, shape in SCANNED.items()]
    weights = {lengths: ints(3, 2)} if lengths else {}
    return model([scan], inputs, [value("y", None), value("z", None)], weights, opset=8)


def test_a_scan_of_opset_8_walks_over_the_sequences_of_a_batch() -> None:
    session = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed").InferenceSession
    random = np.random.default_rng(4)
    feeds = {name: random.integers(-9, 9, shape).astype(np.float32) for name, shape in SCANNED.items()}
    expected = session(batched_scan().SerializeToString()).run(None, feeds)
    for found, wanted in zip(run(batched_scan(), *feeds.values()), expected):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ExportError, match="Scan of opset 8 with lengths of sequences is not supported"):
        export(batched_scan("lengths"))


def test_the_pair_stores_labels_and_preprocessing() -> None:
    told: List[Tuple[str, int, int]] = []
    pair = export(
        flattening([2, 3, 4]),
        labels=("cat", "dog"),
        preprocessing={"scale": 0.5},
        progress=lambda *progress: told.append(progress),
    )
    assert pair.meta["labels"] == ["cat", "dog"]
    assert pair.meta["preprocessing"] == {"scale": 0.5}
    assert pair.meta["source"]["name"] == "graph"
    assert len(pair.meta["source"]["sha256"]) == 64
    assert told == [("operators", index, 5) for index in range(5)]


def test_data_types_that_nets_cannot_hold_are_refused_by_name() -> None:
    proto = model([node("Cast", ["x"], ["y"], to=TensorProto.COMPLEX64)], [value("x", [2])], ["y"])
    with pytest.raises(ExportError, match=r"\(Cast\), opset 18: to: the data type COMPLEX64 is not supported"):
        from_onnx(proto)
    complex64 = helper.make_tensor_value_info("x", TensorProto.COMPLEX64, [2])
    with pytest.raises(ExportError, match="'x' has a data type that is not supported"):
        from_onnx(model([node("Relu", ["x"], ["y"])], [complex64], ["y"]))


@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("type", ["Conv", "MaxPool"])
def test_padding_by_rule_is_the_same_for_open_sizes(type: str, kernel: int, stride: int) -> None:
    weight = np.random.default_rng(0).standard_normal((2, 3, kernel, kernel)).astype(np.float32)
    reads = ["x", "w"] if type == "Conv" else ["x"]
    window = node(type, reads, ["y"], auto_pad="SAME_UPPER", kernel_shape=[kernel] * 2, strides=[stride] * 2)
    for size in (6, 8, 9):
        x = np.random.default_rng(1).standard_normal((1, 3, size, size + 1)).astype(np.float32)
        known, opened = (
            from_onnx(model([window], [value("x", shape)], ["y"], {"w": weight} if type == "Conv" else {}))
            for shape in ([1, 3, size, size + 1], ["n", 3, "h", "w"])
        )
        results = [Predictor(pair).run({"x": x})["y"] for pair in (known, opened)]
        assert_close(results[1], results[0], terms=3 * kernel * kernel)
