"""Networks of float16 are optimised to compute in float32, as onnxruntime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from exporter import export
from optimize import Report, optimize, pipeline
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.weights import Weights
from runtime_arm.errors import OptimizationError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
RANDOM = np.random.default_rng(5)


def network(last: float = 1.0) -> Any:
    """Convolutions with a normalisation, a sum and a product, all of them on halves."""
    from onnx import TensorProto, helper, numpy_helper

    def weight(name: str, *shape: int, factor: float = 1.0) -> Any:
        values = factor * RANDOM.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
        return numpy_helper.from_array(values.astype(np.float16), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2"], ["c"], pads=[1] * 4),
        node("Add", ["b", "c"], ["d"]),
        node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["e"], ["f"]),
        node("Gemm", ["f", "w3", "b3"], ["g"], transB=1),
        node("Softmax", ["g"], ["y"], axis=1),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("b1", 8), weight("w2", 8, 8, 3, 3, factor=last)]
    weights += [weight("w3", 10, 8 * 25, factor=1 / last), weight("b3", 10)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["N", 3, 10, 10])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["N", 10])
    graph = helper.make_graph(nodes, "halves", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def outputs(pair: Pair, x: Any) -> Any:
    with Predictor(pair, threads=1) as predictor:
        return predictor.run({"x": x})["y"]


@pytest.mark.parametrize("batch", [1, 3])
def test_results_are_those_of_onnxruntime(batch: int) -> None:
    session = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed").InferenceSession
    model, report = network(), Report()
    pair = optimize(export(model), report=report)
    x = RANDOM.standard_normal((batch, 3, 10, 10)).astype(np.float16)
    (wanted,) = session(model.SerializeToString()).run(None, {"x": x})
    found = outputs(pair, x)
    assert found.dtype == np.float16
    assert_close(found, wanted, terms=8 * 25)
    assert any("compute in float32 instead of float16: 8" in note for note in report.notes), report.notes
    assert optimize(pair) == pair
    weights = Weights(pair.init_net)
    stored = [weights.value(name) for name in ("w1", "w2", "w3")]
    assert [value is not None and value.dtype for value in stored] == [np.float16] * 3


@pytest.mark.parametrize("words", [120, 2])
def test_tables_that_are_shorter_than_usual_samples_keep_nothing_in_halves(words: int) -> None:
    """Shapes are inferred for lengths that the net takes, and results compared for integers that it takes."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node
    nodes = [
        node("Shape", ["ids"], ["length"], start=1),
        node("Slice", ["table", "zero", "length", "zero"], ["places"]),
        node("Gather", ["words", "ids"], ["a"]),
        node("Add", ["a", "places"], ["b"]),
        node("MatMul", ["b", "w"], ["y"]),
    ]
    sizes = {"table": (64, 8), "words": (words, 8), "w": (8, 5)}
    weights = [
        numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float16), name) for name, shape in sizes.items()
    ]
    weights.append(numpy_helper.from_array(np.zeros(1, np.int64), "zero"))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", "t"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["n", "t", 5])
    graph = helper.make_graph(nodes, "places", [ids], [y], weights)
    plain = export(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    report = Report()
    pair = optimize(plain, report=report)
    assert "instead of float16: 1; each alone gives" in report.notes[0], report.notes
    for shape in ((1, 1), (2, 64), (3, 7)):
        feeds = {"ids": RANDOM.integers(0, words, shape)}
        results = [Predictor(one, threads=1).run(feeds)["y"] for one in (plain, pair)]
        assert_close(results[1], results[0], terms=8)


def test_what_overflows_in_halves_alone_does_not_in_between() -> None:
    model = network(last=2.0**17)
    x = RANDOM.standard_normal((1, 3, 10, 10)).astype(np.float16)
    plain = export(model)
    assert not np.isfinite(outputs(plain, x)).all()
    assert np.isfinite(outputs(optimize(plain), x)).all()


def test_an_operator_that_gives_other_halves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = pipeline.HALVES.rules
    widen = rules[0].rewrite

    def other(program: Program, match: Match) -> Rewrite:
        made = widen(program, match)
        return made._replace(operators=tuple(op.replace(type=op.type.replace("Relu", "Exp")) for op in made.operators))

    broken = tuple(rule._replace(rewrite=other) if rule.rewrite is widen else rule for rule in rules)
    monkeypatch.setattr(pipeline, "HALVES", pipeline.HALVES._replace(rules=broken))
    with pytest.raises(OptimizationError, match=r"in float32 is .* away from what float16 gives"):
        optimize(export(network()))


def test_a_net_that_rounds_by_itself_keeps_its_conversions() -> None:
    net = NetDef.from_text('net "n": x -> y\n FloatToHalf(x) -> h\n HalfToFloat(h) -> w\n Abs(w) -> y')
    result = optimize(Pair(NetDef(), net, (TensorInfo("x", (8,), "float32"),)))
    assert [op.type for op in result.predict_net.op] == ["FloatToHalf", "HalfToFloat", "Abs"]


def test_integers_that_are_made_of_halves_stay_the_same() -> None:
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"])]
    weights = [
        numpy_helper.from_array(RANDOM.standard_normal((16, 64)).astype(np.float16), "w"),
        numpy_helper.from_array(np.array(0.13, np.float16), "s"),
        numpy_helper.from_array(np.array(3, np.int8), "z"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [32, 16])
    q = helper.make_tensor_value_info("q", TensorProto.INT8, [32, 64])
    graph = helper.make_graph(nodes, "integers", [x], [q], weights)
    pair, report = export(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)), Report()
    result = optimize(pair, report=report)
    assert "instead of float16: 1" in report.notes[0]
    assert result.predict_net.op[-1].type == "QuantizeLinear"
