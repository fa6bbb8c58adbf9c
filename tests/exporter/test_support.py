"""``support`` lists the missing operators before a conversion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from exporter.support import Support, support
from runtime_arm.errors import FormatError, UsageError
from runtime_arm.netdef import NetDef, OperatorDef
from tests.exporter.caffe.models import caffemodel, net
from tests.exporter.onnx.models import model, value

node = onnx.helper.make_node


def test_counts_and_problems_include_sub_graphs() -> None:
    inner = [node("Unheard", ["x"], ["u"]), node("Relu", ["u"], ["z"])]
    branch = onnx.helper.make_graph(inner, "b", [], [value("z", None)])
    other = onnx.helper.make_graph([node("Relu", ["x"], ["w"])], "b", [], [value("w", None)])
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Elu", ["a"], ["b"], alpha=3),
        node("Unheard", ["b"], ["c"], domain="my"),
        node("If", ["p"], ["d"], then_branch=branch, else_branch=other),
        node("Add", ["c", "d"], ["y"]),
    ]
    proto = model(nodes, [value("x", [2]), value("p", [], np.bool_)], ["y"])
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    rows = support(proto)
    assert [(row.type, row.count) for row in rows if row.problem] == [("Elu", 1), ("Unheard", 1), ("my.Unheard", 1)]
    assert [(row.type, row.count) for row in rows if not row.problem] == [("Add", 1), ("If", 1), ("Relu", 3)]
    assert "alpha" in rows[0].problem
    assert rows[1].problem == "armnet has no such operator"


def test_a_problem_inside_a_function_is_reported_for_its_call() -> None:
    x = value("x", [2, 3, 4])
    rows = support(model([node("Softmax", ["x"], ["y"], axis=1)], [x], ["y"]), caffe2_compatible=True)
    assert rows == [Support("Softmax", 1, "")]
    hann = model([node("HannWindow", ["n"], ["y"])], [value("n", [], np.int64)], ["y"], opset=17)
    (row,) = support(hann, caffe2_compatible=True)
    assert row.type == "HannWindow"
    assert "(Range)" in row.problem


def test_every_real_onnx_network_is_supported(shared: Path) -> None:
    for path in sorted((shared / "models/onnx").glob("*/*.onnx")):
        assert [row for row in support(path) if row.problem] == [], path.name


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(FormatError, match=r"bad\.onnx"):
        support(path)


@pytest.mark.parametrize("name", ["densenet121", "inception_v1", "resnet50"])
def test_a_predict_net_of_caffe2_alone(shared: Path, name: str) -> None:
    rows = support(shared / f"models/caffe2/predict_only_models/{name}_predict_net.pbtxt")
    assert len(rows) > 3
    assert [row for row in rows if row.problem] == []


def test_an_operator_of_caffe2_inside_a_branch_is_missing(tmp_path: Path) -> None:
    branch = NetDef("branch", (OperatorDef.of("Unheard", ["x"], ["y"]),))
    (tmp_path / "predict_net.pb").write_bytes(
        NetDef("n", (OperatorDef.of("If", ["x"], ["y"], then_net=branch),), ("x",), ("y",)).to_bytes()
    )
    missing, found = support(tmp_path / "predict_net.pb")
    assert (missing.type, missing.count, found.type) == ("Unheard", 1, "If")
    assert "no such operator" in missing.problem


def test_layers_of_caffe_are_tried_with_their_weights(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(
        net(
            'layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 2 } }',
            'layer { name: "u" type: "Unheard" bottom: "f" top: "u" }',
            'layer { name: "r" type: "ReLU" bottom: "u" top: "r" }',
            dims=(1, 4),
        )
    )
    (tmp_path / "net.caffemodel").write_bytes(caffemodel({"f": [np.ones((3, 4)), np.ones(2)]}))
    by_type = support(tmp_path / "net.prototxt")
    assert [row.type for row in by_type if row.problem] == ["Unheard"]
    rows = support(tmp_path / "net.prototxt", tmp_path / "net.caffemodel")
    assert [row.type for row in rows if row.problem] == ["InnerProduct", "Unheard"]
    assert [row.type for row in rows if not row.problem] == ["ReLU"]


def test_every_real_tflite_network_is_supported(shared: Path) -> None:
    for path in sorted((shared / "models/tflite").glob("*/*.tflite")):
        assert [row for row in support(path) if row.problem] == [], path.name


def test_files_of_no_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"net\.h5"):
        support(tmp_path / "net.h5")
