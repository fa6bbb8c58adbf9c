"""Pairs that the real Caffe2 can read: only its operators, and weights in the wire types of its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from exporter import export
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from runtime_arm.netdef import NetDef, wire
from runtime_arm.pair.pair import Pair
from tests.exporter.onnx.models import model, one_node, operators, types, value
from tests.support.paths import DEMO

DIGITS = DEMO / "digits.onnx"
OP, ARG = 2, 5  # fields of NetDef and OperatorDef
NAME, FLOATS, INTS = 1, 5, 6  # fields of Argument, whose repeated numbers the schema does not declare as packed
DECLARED = {FLOATS: wire.FIXED32, INTS: wire.VARINT}


def fields(data: bytes, message: Tuple[int, int], number: int) -> Iterator[Tuple[int, int, int]]:
    """Wire type, start and end of every field with that number in the message between two offsets."""
    for found, kind, start, end in wire.Buffer(data).fields(*message):
        if found == number:
            yield kind, start, end


def arguments(data: bytes) -> Iterator[Tuple[str, Tuple[int, int]]]:
    """Name and place of every argument of every operator in a net."""
    for _, *op in fields(data, (0, len(data)), OP):
        for _, *arg in fields(data, (op[0], op[1]), ARG):
            for _, start, end in fields(data, (arg[0], arg[1]), NAME):
                yield data[start:end].decode(), (arg[0], arg[1])


def test_weights_are_written_one_by_one_as_the_schema_declares(tmp_path: Path) -> None:
    pair = export(DIGITS, caffe2_compatible=True)
    pair.save(tmp_path / "pair")
    data = (tmp_path / "pair" / "init_net.pb").read_bytes()
    decoded: List[np.ndarray] = []
    for name, place in arguments(data):
        kinds = {number: [kind for kind, *_ in fields(data, place, number)] for number in DECLARED}
        for number, kind in DECLARED.items():
            assert set(kinds[number]) <= {kind}, name
        if name == "values" and kinds[FLOATS]:
            raw = b"".join(data[start:end] for _, start, end in fields(data, place, FLOATS))
            decoded.append(np.frombuffer(raw, "<f4"))
    floats = [op for op in export(DIGITS).init_net.op if op.type == "GivenTensorFill"]
    assert len(decoded) == len(floats) > 0
    for values, op in zip(decoded, floats):
        np.testing.assert_array_equal(values, op.get_tensor("values").reshape(-1))


def all_types(net: NetDef) -> Dict[str, str]:
    """The operator types of a net and its sub-nets, with domains."""
    found = {op.type: op.domain for op in net.op}
    for op in net.op:
        for sub in op.subnets():
            found.update(all_types(sub))
    return found


@pytest.mark.parametrize(
    "network",
    [
        "squeezenet_v1.1/squeezenet_v1.1",
        "ultraface/version-RFB-320_simplified",
        "mnist_8/mnist",
        "super_resolution_10/model",
    ],
)
def test_real_networks_need_nothing_but_caffe2(shared: Path, network: str) -> None:
    path = shared / f"models/onnx/{network}.onnx"
    pair, own = export(path, caffe2_compatible=True), export(path)
    assert set(all_types(pair.predict_net).values()) == {""}
    assert {op.type for op in pair.init_net.op} <= {"GivenTensorFill", "GivenTensorInt64Fill"}
    x = np.random.default_rng(0).random(own.inputs[0].example().shape, np.float32)
    for a, b in zip(Predictor(pair).run([x]).values(), Predictor(own).run([x]).values()):
        np.testing.assert_array_equal(a, b)


def test_operators_that_onnx_defines_by_others_are_expanded() -> None:
    x = np.ones((2, 3, 4), np.float32)
    proto = one_node("Softmax", [x], axis=1)
    assert types(proto) == ["onnx.Softmax"]
    assert set(types(proto, caffe2_compatible=True)) == {"ReduceMax", "Sub", "Exp", "ReduceSum", "Div"}
    y = Predictor(export(proto, caffe2_compatible=True)).run([x])["y"]
    assert_each_close(y, np.full(x.shape, 1 / 3), terms=3)


def test_what_caffe2_lacks_is_refused_by_name() -> None:
    proto = one_node("NonMaxSuppression", [np.zeros((1, 5, 4), np.float32), np.zeros((1, 1, 5), np.float32)])
    assert operators(proto) == ["onnx.NonMaxSuppression(a, b) -> y"]
    with pytest.raises(ExportError, match=r"node 'nonmaxsuppression' \(NonMaxSuppression\).*Caffe2 has no operator"):
        export(proto, caffe2_compatible=True)


def test_what_caffe2_lacks_is_refused_inside_of_branches() -> None:
    import onnx

    branch = onnx.helper.make_graph([onnx.helper.make_node("Mod", ["x", "x"], ["z"])], "branch", [], [value("z", None)])
    node = onnx.helper.make_node("If", ["p"], ["y"], then_branch=branch, else_branch=branch)
    proto = model([node], [value("x", [2], np.int64), value("p", [], np.bool_)], ["y"])
    with pytest.raises(ExportError, match=r"\(Mod\).*Caffe2 has no operator"):
        export(proto, caffe2_compatible=True)


def test_pairs_load_again_and_compute_the_same(tmp_path: Path) -> None:
    pair = export(DIGITS, caffe2_compatible=True)
    pair.save(tmp_path / "pair")
    x = np.random.default_rng(0).random((2, *pair.inputs[0].shape[1:]), np.float32)
    (expected,), (result,) = (Predictor(p).run([x]).values() for p in (export(DIGITS), Pair.load(tmp_path / "pair")))
    np.testing.assert_array_equal(result, expected)
