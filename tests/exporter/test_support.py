"""Which operators are missing, before conversion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from exporter.support import Support, support
from runtime_arm.errors import FormatError
from tests.exporter.onnx_models import model, value

node = onnx.helper.make_node


def test_counts_and_problems_sub_graphs_included() -> None:
    inner = [node("Unheard", ["x"], ["u"]), node("Relu", ["u"], ["z"])]
    branch = onnx.helper.make_graph(inner, "b", [], [value("z", None)])
    other = onnx.helper.make_graph([node("Relu", ["x"], ["w"])], "b", [], [value("w", None)])
    nodes = [node("Relu", ["x"], ["a"]), node("Elu", ["a"], ["b"], alpha=3), node("Unheard", ["b"], ["c"], domain="my"),
             node("If", ["p"], ["d"], then_branch=branch, else_branch=other), node("Add", ["c", "d"], ["y"])]
    proto = model(nodes, [value("x", [2]), value("p", [], np.bool_)], ["y"])
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    rows = support(proto)
    assert [(row.type, row.count) for row in rows if row.problem] == [("Elu", 1), ("Unheard", 1), ("my.Unheard", 1)]
    assert [(row.type, row.count) for row in rows if not row.problem] == [("Add", 1), ("If", 1), ("Relu", 3)]
    assert "alpha" in rows[0].problem
    assert "no such operator" in rows[1].problem


def test_functions_are_blamed_for_what_is_missing_inside_of_them() -> None:
    x = value("x", [2, 3, 4])
    rows = support(model([node("Softmax", ["x"], ["y"], axis=1)], [x], ["y"]), caffe2_compatible=True)
    assert rows == [Support("Softmax", 1, "")]
    hann = model([node("HannWindow", ["n"], ["y"])], [value("n", [], np.int64)], ["y"], opset=17)
    (row,) = support(hann, caffe2_compatible=True)
    assert row.type == "HannWindow"
    assert "(Range)" in row.problem


def test_every_real_network_is_supported(shared: Path) -> None:
    for path in sorted((shared / "models/onnx").glob("*/*.onnx")):
        assert [row for row in support(path) if row.problem] == [], path.name


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(FormatError, match=r"bad\.onnx"):
        support(path)
