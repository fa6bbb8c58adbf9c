"""The public interface: what can be imported, from where and with which packages; what ``help`` says about it."""

from __future__ import annotations

import ast
import importlib
import pydoc
from pathlib import Path
from types import ModuleType
from typing import Dict, List

import pytest

import armnet
import runtime_arm
from tests.support.interpreter import NUMPY_ALONE, python
from tests.support.paths import DEMO, ROOT

# The imports from the working packages that design.md promises.
CONTRACTS = [
    "from runtime_arm import Pair, Predictor, QuantizedTensor, Workspace, load",
    "from runtime_arm.pair import Pair",
    "from runtime_arm.netdef import NetDef, OperatorDef",
    "from runtime_arm.errors import ArmnetError",
    "from exporter import export",
    "from optimize import optimize",
    "from optimize.memonger import optimize_interference, rename_blobs, share_conv_buffers",
    "from optimize.engines import pick_engines",
    "from exporter.onnx_backend import Backend",
]
MODULES = ["armnet.errors", "armnet.memonger", "armnet.netdef", "armnet.onnx_backend"]


@pytest.mark.parametrize("package", [armnet, runtime_arm], ids=lambda package: package.__name__)
def test_every_public_name_can_be_imported_first(package: ModuleType) -> None:
    program = f"""
import os
for name in {package.__all__!r}:
    pid = os.fork()  # each in an interpreter that has imported nothing yet
    if pid == 0:
        exec(f"from {package.__name__} import {{name}}")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, name
"""
    python(program)


@pytest.mark.parametrize("statement", CONTRACTS)
def test_the_promised_names_of_the_working_packages_can_be_imported(statement: str) -> None:
    if "onnx_backend" in statement:
        pytest.importorskip("onnx", reason="ONNX's backend interface comes from the package onnx")
    exec(statement, {})


@pytest.mark.parametrize("name", ["optimize", "quantize", "pick_engines", "pack", "save_onnx", "save_tflite"])
def test_what_is_no_pair_is_refused_with_the_way_to_one(name: str) -> None:
    others = ["written"] if name in ("pack", "save_onnx", "save_tflite") else []
    with pytest.raises(armnet.errors.UsageError, match=f"^{name} takes a Pair, got str: armnet.export makes"):
        getattr(armnet, name)("model.onnx", *others)


@pytest.mark.parametrize("package", ["armnet", "runtime_arm"])
def test_type_checkers_see_the_names_that_are_imported_lazily(package: str) -> None:
    module = importlib.import_module(package)
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    typed: Dict[str, str] = {}
    lazy: Dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                typed.update((alias.name, statement.module or "") for alias in statement.names)
        elif isinstance(node, ast.Dict):
            lazy = ast.literal_eval(node)
    typed = {name: f"{package}.{name}" if home == package else home for name, home in typed.items()}
    assert typed == lazy
    assert sorted(lazy) == module.__all__


@pytest.mark.parametrize("package", [armnet, runtime_arm], ids=lambda package: package.__name__)
def test_help_and_dir_name_the_public_interface(package: ModuleType) -> None:
    assert [name for name in dir(package) if not name.startswith("__")] == package.__all__
    described = pydoc.plain(pydoc.render_doc(package))
    for name in package.__all__:
        if f"{package.__name__}.{name}" in MODULES:
            assert f"``armnet.{name}``" in described
        else:
            assert any(line.strip(" |").startswith(f"{name}  ") for line in described.splitlines()), name


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'armnet' has no attribute 'Predicter'"):
        armnet.Predicter  # noqa: B018
    with pytest.raises(ImportError):
        from runtime_arm import Predicter  # noqa: F401


def test_with_numpy_alone_a_device_exports_loads_runs_optimises_and_packs(digits: Path, tmp_path: Path) -> None:
    program = f"""{NUMPY_ALONE}
import numpy as np
import armnet
import armnet.errors, armnet.memonger, armnet.netdef

exported = armnet.export({str(DEMO / "digits.onnx")!r})
assert not [row.problem for row in armnet.support({str(DEMO / "digits.onnx")!r}) if row.problem]
pair = armnet.optimize(armnet.Pair.load({str(digits)!r}))
assert pair.predict_net == armnet.optimize(exported).predict_net
x = np.zeros((1, 1, 8, 8), np.float32)
with armnet.Predictor(pair, threads=1) as predictor:
    print(predictor.run([x])["probabilities"].shape)
armnet.pack(pair, "digits.pyz")
with armnet.load("digits.pyz", threads=1) as predictor:
    predictor.run([x])
armnet.memonger.rename_blobs(pair.predict_net)
import pydoc
print("save_onnx" in pydoc.render_doc(armnet))
"""
    assert python(program, tmp_path).split("\n")[:2] == ["(1, 10)", "True"]


def test_without_numpy_the_errors_and_the_version_can_be_imported() -> None:
    program = f"""{NUMPY_ALONE.replace('"numpy", ', "").replace("'numpy', ", "")}
import armnet
print(armnet.__version__, armnet.errors.FeedError.__name__)
try:
    armnet.Predictor
except armnet.ArmnetError as error:
    print(type(error).__name__, error)
"""
    assert python(program).splitlines() == [
        f"{armnet.__version__} FeedError",
        "MissingDependency armnet.Predictor needs the package numpy: pip install numpy",
    ]


@pytest.mark.parametrize(
    ("use", "package"),
    [
        (f"armnet.compare({str(DEMO / 'digits.onnx')!r}, PAIR)", "onnx"),
        ("armnet.save_onnx(armnet.Pair.load(PAIR), 'digits.onnx')", "onnx"),
        ("import armnet.onnx_backend", "onnx"),
    ],
)
def test_a_missing_package_causes_one_line_that_says_how_to_install_it(use: str, package: str, digits: Path) -> None:
    program = f"""{NUMPY_ALONE}
import armnet
PAIR = {str(digits)!r}
try:
    {use}
except armnet.errors.MissingDependency as error:
    print(error)
"""
    (line,) = python(program).splitlines()
    assert package in line
    assert "pip install 'armnet[export" in line


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (["device", "list"], 0, ""),
        (["device", "count", "PAIR"], 2, "armnet: this command needs the package onnx: pip install 'armnet[export]'"),
        (["export", "PAIR", "--to", "onnx", "-o", "x"], 2, "armnet: writing ONNX needs the package onnx: "),
    ],
)
def test_commands_need_only_the_packages_that_they_use(
    words: List[str], status: int, problem: str, digits: Path, tmp_path: Path
) -> None:
    words = [str(digits) if word == "PAIR" else word for word in words]
    program = f"""{NUMPY_ALONE}
sys.stderr = sys.stdout
from armnet.__main__ import main
print(main({words!r}))
"""
    lines = python(program, tmp_path).splitlines()
    assert lines[-1] == str(status)
    assert not problem or (len(lines) == 2 and lines[0].startswith(problem)), lines
