"""A bundle contains the parts of the runtime that its nets need, and no other operators."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporter.bundle.pack import pack
from exporter.bundle.runtime_files import runtime_files
from runtime_arm import Pair
from runtime_arm.errors import PairError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.registry.families import FAMILIES


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundles of these tests leave no code in the user's cache."""
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path_factory.mktemp("cache")))


def op(type: str, inputs: str, outputs: str, domain: str = "", **arguments: Any) -> OperatorDef:
    return OperatorDef.of(type, inputs.split(), outputs.split(), domain=domain, **arguments)


def net(inputs: str, outputs: str, *ops: OperatorDef) -> NetDef:
    return NetDef("net", tuple(ops), external_input=tuple(inputs.split()), external_output=tuple(outputs.split()))


def families(*nets: NetDef) -> set[str]:
    """The modules of operators and engines that the bundle of these nets contains."""
    modules = [name[:-3].replace("/", ".").partition(".")[2] for name in runtime_files(nets) if name.endswith(".py")]
    return {name for name in modules if name.startswith(("operators.", "engines.")) and not name.endswith("__init__")}


def test_a_bundle_contains_the_operators_of_its_net_and_few_others() -> None:
    taken = families(net("x", "y", op("Softmax", "x", "y")))
    assert "operators.norm.softmax" in taken
    assert not {"operators.recurrent.caffe2_units", "operators.linear.einsum", "engines.integers.onnx"} & taken
    assert len(taken) < 62


def test_a_bundle_contains_a_package_only_with_a_module_of_it() -> None:
    nets = [net("x w", "y", op("Conv", "x w", "c"), op("Relu", "c", "y"))]
    files = {name for name in runtime_files(nets) if name.endswith(".py")}
    modules = {name for name in files if not name.endswith("__init__.py")}
    for package in files - modules:
        folder = package[: -len("__init__.py")]
        assert any(name.startswith(folder) for name in modules), f"{package} came alone"
    assert not {name for name in files if name.startswith("runtime_arm/operators/recurrent/")}
    assert len(files) < 214  # a bundle starts by reading the list of its files


def test_a_bundle_contains_the_packages_around_every_module() -> None:
    files = set(runtime_files([net("x", "y", op("Softmax", "x", "y"))]))
    for name in files:
        for folder in list(Path(name).parents)[:-1]:
            assert f"{folder.as_posix()}/__init__.py" in files


def test_a_bundle_always_contains_the_rest_of_the_runtime() -> None:
    files = runtime_files([])
    assert {"runtime_arm/app/main.py", "runtime_arm/planning/plan.py", "runtime_arm/netdef/netdef.desc"} <= set(files)


def test_a_bundle_with_convolutions_contains_their_engines() -> None:
    engines = {family for family, types in FAMILIES[""].items() if "Conv" in types.split() and "engines." in family}
    assert engines <= families(net("x w", "y", op("Conv", "x w", "y")))
    assert engines <= families(net("x w", "y", op("FusedConv", "x w", "y", "armnet", activation="onnx.HardSwish")))


def test_a_bundle_contains_the_activations_of_fused_operators() -> None:
    plain = families(net("x w", "y", op("FusedConv", "x w", "y", "armnet")))
    fused = families(net("x w", "y", op("FusedConv", "x w", "y", "armnet", activation="Exp")))
    assert "operators.elementwise.unary" in fused - plain


def test_a_bundle_contains_the_operators_of_sub_nets_whether_or_not_they_run(tmp_path: Path) -> None:
    then_net, else_net = net("x", "y", op("Softmax", "x", "y")), net("x", "y", op("Transpose", "x", "y", axes=[1, 0]))
    predict = net("c x", "y", op("If", "c", "y", then_net=then_net, else_net=else_net))
    assert {"operators.norm.softmax", "operators.layout.transpose"} <= families(predict)
    pair = Pair(
        net("", ""), predict, (TensorInfo("c", (), "bool"), TensorInfo("x", (2, 2), "float32")), (TensorInfo("y"),)
    )
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    pack(pair, tmp_path / "app.pyz", {"c": np.array(True), "x": x})
    np.savez(tmp_path / "in.npz", c=np.array(False), x=x)
    command = [sys.executable, "-I", "app.pyz", "in.npz", "--output", "out.npz"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], x.T)


def test_a_bundle_that_fails_its_own_test_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text("raise OSError('the plan is broken')\n")
    broken = {"runtime_arm/planning/plan.py": tmp_path / "broken.py"}
    monkeypatch.setattr("exporter.bundle.pack.runtime_files", lambda *how: {**runtime_files(*how), **broken})
    pair = Pair(
        net("", ""), net("x", "y", op("Softmax", "x", "y")), (TensorInfo("x", (2, 2), "float32"),), (TensorInfo("y"),)
    )
    with pytest.raises(PairError, match=r"app\.pyz: the bundle fails its self-test.*the plan is broken"):
        pack(pair, tmp_path / "app.pyz")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.py"]


def test_a_bundle_contains_the_decoder_of_its_results_and_nothing_for_devices() -> None:
    files = set(runtime_files([net("x", "y", op("Softmax", "x", "y"))], ["yolov8"]))
    decoders = {Path(name).stem for name in files if name.startswith("runtime_arm/results/decoders/")}
    assert decoders >= {"__init__", "yolov8", "classes", "tensors"}
    assert not decoders & {"ssd", "movenet", "silero_vad"}
    assert not {name for name in files if name.startswith("runtime_arm/gpu/")}


def test_a_bundle_contains_the_room_of_its_decoder_or_nothing_of_it() -> None:
    folder = "runtime_arm/results/decoders/mediapipe/"
    relu = [net("x", "y", op("Relu", "x", "y"))]
    assert {f"{folder}__init__.py", f"{folder}palms.py", f"{folder}blazeface.py"} <= set(runtime_files(relu, ["palms"]))
    assert not [name for name in runtime_files(relu) if name.startswith(folder)]
