"""Caffe2's own pairs, normalised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exporter import export
from exporter.support import support
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef

INIT = NetDef(
    "init",
    (
        OperatorDef.of("ConstantFill", [], ["w"], shape=[2, 3], value=2.0),
        OperatorDef.of("GivenTensorFill", [], ["b"], shape=[2], values=[1.0, -20.0]),
        OperatorDef.of("GivenTensorFill", [], ["unused"], shape=[2], values=[0.0, 0.0]),
    ),
)
PREDICT = NetDef(
    "predict",
    (
        OperatorDef.of("FC", ["x", "w", "b"], ["y"]),
        OperatorDef.of("Relu", ["y"], ["y"]),
    ),
    external_input=("x", "w", "b", "unused"),
    external_output=("y",),
)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "init_net.pb", tmp_path / "predict_net.pb"]
    for path, net in zip(files, (INIT, PREDICT)):
        path.write_bytes(net.to_bytes())
    return files


@pytest.mark.parametrize("swapped", [False, True])
def test_the_pair_holds_the_weights_that_are_read_and_computes_the_same(paths: list[Path], swapped: bool) -> None:
    pair = export(*(reversed(paths) if swapped else paths), labels=["a", "b"])
    assert [op.output for op in pair.init_net.op] == [("w",), ("b",)]
    assert {op.type for op in pair.init_net.op} == {"GivenTensorFill"}
    assert pair.predict_net.external_input == ("x", "w", "b")
    assert [info.name for info in pair.inputs] == ["x"]
    assert pair.meta["labels"] == ["a", "b"]
    assert pair.meta["source"]["name"] == "predict_net.pb"
    y = Predictor(pair).run([np.ones((1, 3), np.float32)])["y"]
    np.testing.assert_array_equal(y, [[7, 0]])


def test_a_missing_weight_is_named(paths: list[Path]) -> None:
    paths[0].write_bytes(INIT.replace(op=INIT.op[:1]).to_bytes())
    pair = export(*paths)
    assert [info.name for info in pair.inputs] == ["x", "b", "unused"]  # a blob that init_net does not fill is an input


def test_an_external_input_may_be_named_twice(paths: list[Path]) -> None:
    """Caffe2 takes external inputs as a set: the pair computes what it does without the repetition."""
    x = np.ones((1, 3), np.float32)
    expected = Predictor(export(*paths)).run([x])["y"]
    names = ("x", "w", "x", "b", "b", "unused", "w")
    paths[0].write_bytes(INIT.replace(external_input=("unused", "unused")).to_bytes())
    paths[1].write_bytes(PREDICT.replace(external_input=names, external_output=("y", "y")).to_bytes())
    pair = export(*paths)
    assert pair.predict_net.external_input == ("x", "w", "b")
    assert [info.name for info in pair.inputs] == ["x"]
    assert not [row for row in support(*paths) if row.problem]
    with Predictor(*paths) as by_files, Predictor(optimize(pair, shapes={"x": (1, 3)})) as optimised:
        for predictor in (Predictor(pair), by_files, optimised):
            np.testing.assert_array_equal(predictor.run([x])["y"], expected)
    workspace = Workspace()
    for name, value in {"x": x, "w": np.full((2, 3), 2, np.float32), "b": np.float32([1, -20])}.items():
        workspace.feed(name, value)
    workspace.run_net_once(PREDICT.replace(external_input=("x", "x", "w", "b")))
    np.testing.assert_array_equal(workspace.fetch("y"), expected)


def test_damaged_files_are_named(paths: list[Path]) -> None:
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    with pytest.raises(ArmnetError, match=r"predict_net\.pb"):
        export(*paths)


def test_nets_that_cannot_run_are_refused(paths: list[Path]) -> None:
    paths[1].write_bytes(PREDICT.replace(op=PREDICT.op[1:]).to_bytes())
    with pytest.raises(ExportError, match=r"predict_net\.pb: .*'y'"):
        export(*paths)


def test_foreign_operators_are_refused_in_caffe2_compatible_pairs(paths: list[Path]) -> None:
    foreign = PREDICT.op[1].__class__.of("Relu", ["y"], ["y"], domain="onnx")
    paths[1].write_bytes(PREDICT.replace(op=(PREDICT.op[0], foreign)).to_bytes())
    export(*paths)
    with pytest.raises(ExportError, match=r"onnx\.Relu\(y\) -> y: Caffe2 has no such operator"):
        export(*paths, caffe2_compatible=True)


def test_super_resolution_agrees_with_the_onnx_net_of_the_same_weights(shared: Path) -> None:
    folder = shared / "models/caffe2/superres_from_onnx"
    pair = export(folder / "init_net.pb", folder / "predict_net.pb")
    original = export(shared / "models/onnx/super_resolution_10/model.onnx")
    x = np.random.default_rng(0).random((1, 1, 224, 224), np.float32)
    result, expected = Predictor(pair).run([x])["27"], Predictor(original).run([x])["output"]
    assert np.abs(result - expected).max() <= 1e-4 * np.abs(expected).max()


def test_squeezenet_reproduces_its_reference(shared: Path) -> None:
    folder = shared / "models/caffe2/squeezenet_v1.1_reconstructed"
    reference = np.load(shared / "models/references/caffe2_squeezenet_v1.1_reconstructed.npz")
    pair = export(folder / "squeeze_init_net.pb", folder / "squeezeNetPredict.pb")
    inputs = [reference[key] for key in reference.files if key.startswith("in")]
    outputs = [reference[key] for key in reference.files if key.startswith("out")]
    with Predictor(pair) as predictor:
        for result, expected in zip(predictor.run(inputs).values(), outputs):
            assert np.abs(result.reshape(-1) - expected.reshape(-1)).max() <= 1e-4 * np.abs(expected).max()
