"""``support`` calls a model translatable exactly if ``export`` translates it: node cases, operators, damaged files."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable, Dict, List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import export
from exporter.support import support
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import NetDef, OperatorDef
from tests.exporter.caffe.test_damage import MODEL, TEXT
from tests.exporter.caffe2.test_damage import PREDICT, WEIGHTS, init_net
from tests.exporter.tflite import cases_layout
from tests.exporter.tflite.cases import CASES
from tests.support.onnx_nodes import node_tests

Files = Dict[str, bytes]  # the files of one model by name


def refusals(*sources: Any, **options: Any) -> Tuple[str, str]:
    """Why export and support refuse a model, each in one line; "" where they accept it."""
    said = []
    for task in (export, support):
        try:
            answer: Any = task(*sources, **options)
            said.append("; ".join(row.problem for row in answer if row.problem) if task is support else "")
        except ArmnetError as error:
            said.append(str(error))
    assert all(text.isprintable() for text in said)
    return said[0], said[1]


@pytest.mark.parametrize("caffe2_compatible", [False, True])
def test_the_node_tests_of_onnx(caffe2_compatible: bool) -> None:
    """The first and the last test of every operator, at every opset that has one."""
    models: Dict[Any, Any] = {}
    for case in node_tests():
        kind = case.model.graph.node[0].op_type, case.model.opset_import[0].version
        models.setdefault((*kind, "first"), case.model)
        models[(*kind, "last")] = case.model
    said = {name: refusals(model, caffe2_compatible=caffe2_compatible) for name, model in models.items()}
    assert {name: texts for name, texts in said.items() if bool(texts[0]) != bool(texts[1])} == {}
    translated = sum(not texts[0] for texts in said.values())
    assert 100 < translated < len(said) if caffe2_compatible else translated == len(said)


@pytest.mark.parametrize("caffe2_compatible", [False, True])
def test_the_operators_of_tflite(caffe2_compatible: bool, tmp_path: Path) -> None:
    assert cases_layout  # which adds its cases
    path, said = tmp_path / "net.tflite", {}
    for name, build in CASES.items():
        path.write_bytes(build()[0])
        said[name] = refusals(path, caffe2_compatible=caffe2_compatible)
    assert {name: texts for name, texts in said.items() if bool(texts[0]) != bool(texts[1])} == {}
    assert sum(not texts[0] for texts in said.values()) > 50


def onnx_model() -> Files:
    import onnx

    from tests.exporter.onnx.models import model, value

    node = onnx.helper.make_node
    branches = {
        name: onnx.helper.make_graph([node(type, ["a"], [name])], name, [], [value(name, None)])
        for name, type in (("then_branch", "Relu"), ("else_branch", "Gelu"))
    }
    nodes = [node("Softmax", ["x"], ["a"], axis=1), node("If", ["p"], ["y"], **branches)]
    return {"net.onnx": model(nodes, [value("x", [2, 3]), value("p", [], bool)], ["y"]).SerializeToString()}


def tflite_model() -> Files:
    return {"net.tflite": CASES["CONV_2D:same"]()[0]}


def caffe_model() -> Files:
    return {"net.prototxt": TEXT.encode(), "net.caffemodel": MODEL}


def caffe2_model() -> Files:
    branch = NetDef("then", (OperatorDef.of("Relu", ["y"], ["z"]),), external_output=("z",))
    net = PREDICT.replace(op=(*PREDICT.op, OperatorDef.of("If", ["c"], ["z"], then_net=branch, else_net=branch)))
    return {"init_net.pb": init_net(WEIGHTS).to_bytes(), "predict_net.pb": net.to_bytes()}


MODELS: List[Callable[[], Files]] = [onnx_model, tflite_model, caffe_model, caffe2_model]


@pytest.mark.parametrize("build", MODELS)
@given(seed=st.integers(0, 1 << 32), caffe2_compatible=st.booleans())
def test_damaged_files(build: Callable[[], Files], seed: int, caffe2_compatible: bool) -> None:
    """A few bytes of one file are exchanged, or nothing is."""
    draw, files = random.Random(seed), build()
    name = draw.choice(sorted(files))
    data = bytearray(files[name])
    for _ in range(draw.randrange(4)):
        data[draw.randrange(len(data))] = draw.choice([draw.randrange(256), draw.choice(data)])
    with TemporaryDirectory() as folder:
        for file, content in {**files, name: bytes(data)}.items():
            Path(folder, file).write_bytes(content)
        by_export, by_support = refusals(*(Path(folder, file) for file in files), caffe2_compatible=caffe2_compatible)
    assert bool(by_export) == bool(by_support), (by_export, by_support)


@pytest.mark.parametrize("build", MODELS)
def test_the_undamaged_files_are_accepted(build: Callable[[], Files], tmp_path: Path) -> None:
    for file, content in build().items():
        (tmp_path / file).write_bytes(content)
    assert refusals(*tmp_path.iterdir()) == ("", "")
