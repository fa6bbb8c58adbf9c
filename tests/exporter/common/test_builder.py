"""NetBuilder: names, constants, folding and the removal of unused operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from exporter.common.builder import FOLDED_NBYTES, NetBuilder
from runtime_arm import Predictor
from runtime_arm.errors import ExportError, OperatorError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

FLOAT = np.dtype(np.float32)


def op(text: str) -> OperatorDef:
    return NetDef.from_text(text).op[0]


def pair_of(builder: NetBuilder, **options: Any) -> Pair:
    return builder.pair("net", [TensorInfo("x", (2, 3), "float32")], [TensorInfo("y")], {}, **options)


def started() -> NetBuilder:
    builder = NetBuilder(outputs=["y"])
    builder.input("x", FLOAT, (2, 3))
    return builder


def test_fresh_names_are_the_requested_ones_unless_they_are_in_use() -> None:
    builder = NetBuilder(outputs=["y"])
    builder.reserve(["a"])
    assert [builder.fresh(stem) for stem in ("a", "b", "b", "y", "")] == ["a_1", "b", "b_1", "y_1", "_1"]
    assert builder.nested().fresh("b") == "b_2"


def test_constants_are_folded_and_unused_operators_removed() -> None:
    builder = started()
    builder.constant("c", np.ones((3, 2), np.float32))
    builder.constant("unused", np.ones(9, np.float32))
    builder.add(op("Transpose(c) -> d"))
    builder.add(op("Concat(x, d) -> y, info  axis=0"))
    builder.add(op("Relu(x) -> nobody"))
    pair = pair_of(builder)
    assert [made.type for made in pair.predict_net.op] == ["Concat"]
    assert [made.output[0] for made in pair.init_net.op] == ["d"]
    assert pair.predict_net.external_input == ("x", "d")
    y = Predictor(pair).run([np.zeros((2, 3), np.float32)])["y"]
    np.testing.assert_array_equal(y, [[0] * 3] * 2 + [[1] * 3] * 2)


def test_shapes_of_static_inputs_are_constants_those_of_others_are_not() -> None:
    builder = NetBuilder()
    builder.input("x", FLOAT, (2, 3))
    builder.input("dynamic", FLOAT, (None, 3))
    builder.add(op("Shape(x) -> s"))
    builder.add(op("Shape(dynamic) -> t"))
    value = builder.value("s")
    assert value is not None
    assert value.tolist() == [2, 3]
    assert builder.value("t") is None
    assert builder.dims("dynamic") == (None, 3)


def test_an_operator_whose_folding_would_enlarge_the_weights_is_kept() -> None:
    for count, folded in ((1, True), (FOLDED_NBYTES, False)):
        builder = started()
        builder.constant("c", np.ones((1, 3), np.float32))
        builder.add(op(f"Tile(c) -> d  tiles={count} axis=0"))
        builder.add(op("Concat(x, d) -> y, info  axis=0"))
        assert [made.type for made in pair_of(builder).predict_net.op] == (["Concat"] if folded else ["Tile", "Concat"])


def test_an_operator_behind_an_unfolded_one_is_not_folded() -> None:
    builder = started()
    builder.constant("c", np.ones((1, 3), np.float32))
    builder.add(op(f"Tile(c) -> d  tiles={FOLDED_NBYTES} axis=0"))
    builder.add(op("Transpose(d) -> e  axes=[1, 0]"))
    builder.add(op("Relu(e) -> y"))
    assert [made.type for made in pair_of(builder).predict_net.op] == ["Tile", "Transpose", "Relu"]
    assert [made.output[0] for made in pair_of(builder).init_net.op] == ["c"]


def test_eight_bit_weights_stay_eight_bit() -> None:
    builder = started()
    builder.constant("c", np.ones((1, 3), np.int8))
    builder.constant("scale", np.array(0.5, np.float32))
    builder.add(OperatorDef.of("DequantizeLinear", ["c", "scale"], ["d"], domain="onnx"))
    builder.add(op("Concat(x, d) -> y, info  axis=0"))
    assert [made.type for made in pair_of(builder).predict_net.op] == ["DequantizeLinear", "Concat"]
    np.testing.assert_array_equal(builder.value("d"), [[0.5] * 3])


def test_an_alias_of_an_inner_blob_costs_nothing_one_of_an_output_is_a_copy() -> None:
    builder = started()
    builder.add(op("Relu(x) -> a"))
    builder.alias("b", "a")
    builder.alias("c", "b")
    builder.add(op("Relu(c) -> d"))
    builder.alias("y", "d")
    signatures = [made.signature() for made in pair_of(builder).predict_net.op]
    assert signatures == ["Relu(x) -> a", "Relu(a) -> d", "Copy(d) -> y"]


def test_an_output_that_is_constant_is_filled() -> None:
    builder = started()
    builder.constant("c", np.arange(3))
    builder.alias("y", "c")
    pair = pair_of(builder)
    assert pair.predict_net.op == ()
    np.testing.assert_array_equal(Predictor(pair).run([np.zeros((2, 3), np.float32)])["y"], [0, 1, 2])


def test_operators_that_refuse_their_inputs_are_refused_at_once() -> None:
    with pytest.raises(OperatorError, match="Concat"):
        started().add(op("Concat(x, x) -> y, info  axis=7"))


def test_sub_nets_see_the_blobs_around_them_and_their_constants_belong_to_the_pair() -> None:
    builder = started()
    builder.input("p", np.dtype(np.bool_), (1,))
    builder.add(op("Relu(x) -> a"))
    branches = []
    for blob in ("then", "else"):
        inner = builder.nested()
        inner.constant(f"{blob}_c", np.ones((1, 3), np.float32))
        inner.add(OperatorDef.of("Concat", ["a", f"{blob}_c"], [f"{blob}_y", f"{blob}_info"], axis=0))
        branches.append(inner.net(blob, [], [f"{blob}_y"]))
    builder.add(OperatorDef.of("If", ["p"], ["y"], then_net=branches[0], else_net=branches[1]))
    pair = builder.pair("net", [TensorInfo("x"), TensorInfo("p")], [TensorInfo("y")], {})
    assert [made.type for made in pair.predict_net.op] == ["Relu", "If"]
    assert pair.predict_net.external_input == ("x", "p", "then_c", "else_c")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int16", "int32", "int64", "uint8", "int8", "float16"])
def test_fills_hold_their_values_without_copies(dtype: str) -> None:
    value = np.ones((2, 3), dtype)
    assert np.shares_memory(fill("w", value).get_tensor("values"), value)


@pytest.mark.parametrize(
    ("dtype", "type", "field"),
    [
        ("float32", "GivenTensorFill", "floats"),
        ("float64", "GivenTensorDoubleFill", "floats"),
        ("int64", "GivenTensorInt64Fill", "ints"),
        ("int32", "GivenTensorIntFill", "ints"),
        ("bool", "GivenTensorBoolFill", "ints"),
    ],
)
def test_unpacked_fills_are_caffe2s(dtype: str, type: str, field: str) -> None:
    made = fill("w", np.ones((2, 3), dtype), unpacked=True)
    values = made.argument("values")
    assert made.type == type
    assert made.get_ints("shape") == (2, 3)
    assert values is not None
    assert values.kind == field
    assert getattr(values, field).tolist() == [1] * 6


def test_caffe2_has_no_fill_for_some_dtypes() -> None:
    with pytest.raises(ExportError, match="float16"):
        fill("w", np.ones(2, np.float16), unpacked=True)
