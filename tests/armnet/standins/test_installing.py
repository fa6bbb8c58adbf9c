"""Ways in: ``install``, ``armnet exec``, ``armnet standin``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from armnet.standins.packages import PACKAGES
from tests.support.commands import Armnet, refused
from tests.support.interpreter import NUMPY_ALONE, python
from tests.support.paths import DEMO, ROOT

IMPORTS = """
import onnxruntime, onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from onnxruntime.capi.onnxruntime_inference_collection import OrtValue
import onnxruntime.capi.onnxruntime_pybind11_state
import tflite_runtime.interpreter as tflite
from tflite_runtime.interpreter import Interpreter, load_delegate, OpResolverType
from ai_edge_litert.interpreter import Interpreter as Successor
import importlib.util
"""
LATER_IMPORTS = """
import tensorflow as tf, tensorflow.lite as tflite
from tensorflow import lite
from tensorflow.lite.python import interpreter as wrapper
from tensorflow.lite.python.interpreter import Interpreter, load_delegate
import caffe, caffe.io
from caffe import layers as L, params as P
from caffe.proto import caffe_pb2
from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils, workspace
assert tf.lite.Interpreter is lite.Interpreter is tflite.Interpreter is wrapper.Interpreter is Interpreter
assert tf.lite.experimental.load_delegate is load_delegate
assert caffe.io.caffe_pb2 is caffe_pb2 and caffe_pb2.TEST == caffe.TEST
assert core.DataType.INT64 == caffe2_pb2.TensorProto.INT64 and P.Pooling.MAX == caffe_pb2.PoolingParameter.MAX
"""


def test_the_stand_ins_answer_to_every_name_that_programs_import() -> None:
    program = f"""{NUMPY_ALONE}
import armnet.standins
print(armnet.standins.install("onnxruntime", "tflite_runtime"))
{IMPORTS}
assert ort.InferenceSession is InferenceSession and C.Fail is Fail and ort.OrtValue is OrtValue
assert Interpreter is Successor
assert importlib.util.find_spec("onnxruntime") is not None
print(ort.__version__, ort.get_available_providers())
for missing in (lambda: ort.LoraAdapter, lambda: C.nothing, lambda: SessionOptions().nothing):
    try:
        missing()
    except AttributeError as error:
        print(error)
"""
    installed, version, *problems = python(program).splitlines()
    assert installed == "['onnxruntime', 'tflite_runtime', 'ai_edge_litert']"
    assert version == f"{PACKAGES['onnxruntime'].version} ['CPUExecutionProvider']"
    for name, problem in zip(("LoraAdapter", "nothing", "nothing"), problems):
        assert name in problem
        assert "standin" in problem.replace("-", ""), problem


def test_a_module_that_a_stand_in_lacks_is_named() -> None:
    program = """
import armnet.standins
armnet.standins.install("onnxruntime", force=True)
import onnxruntime.backend
print(onnxruntime.backend.__name__)
try:
    import onnxruntime.quantization
except ModuleNotFoundError as error:
    print(error)
"""
    name, problem = python(program).splitlines()
    assert name == "armnet.standins.onnxruntime.backend"
    assert problem == "No module named 'onnxruntime.quantization': armnet's stand-in for onnxruntime has none"


def test_a_package_that_is_installed_stays_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime/__init__.py").write_text("version = 'real'\n")
    program = f"""
sys.path.insert(0, {str(tmp_path)!r})
import armnet.standins
assert armnet.standins.install("onnxruntime") == []
import onnxruntime
print(onnxruntime.version)
assert armnet.standins.install("onnxruntime", force=True) == ["onnxruntime"]
import onnxruntime
print(onnxruntime.__name__)
"""
    assert python(program).split() == ["real", "armnet.standins.onnxruntime"]


def test_a_package_without_a_stand_in_is_refused() -> None:
    program = """
import armnet.standins
try:
    armnet.standins.install("onnxruntime", "tensorrt")
except armnet.ArmnetError as error:
    print(error, "onnxruntime" in sys.modules)
"""
    assert python(program).strip().endswith(f"there are stand-ins for {', '.join(PACKAGES)} False")


def test_importing_a_stand_in_imports_no_more_than_the_runtime() -> None:
    program = f"""{NUMPY_ALONE}
import runtime_arm.version
before = set(sys.modules)
import armnet.standins.onnxruntime, armnet.standins.tflite_runtime
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("armnet")))
"""
    assert python(program).split() == []


def test_caffe2s_predictor_needs_numpy_alone() -> None:
    program = f"""{NUMPY_ALONE}
import armnet.standins
armnet.standins.install("caffe2", force=True)
import numpy as np
from caffe2.python import workspace
from runtime_arm.netdef import NetDef, OperatorDef
init = NetDef("init", (OperatorDef.of("GivenTensorFill", [], ["b"], shape=[2], values=[1.0, 2.0]),))
net = NetDef("net", (OperatorDef.of("Add", ["x", "b"], ["y"]),), external_input=("x", "b"), external_output=("y",))
predictor = workspace.Predictor(init.to_bytes(), net.to_bytes())
print(predictor.run([np.ones(2, np.float32)])[0].tolist())
try:
    from caffe2.proto.caffe2_pb2 import NetDef
except ImportError as error:
    print(error)
"""
    first, second = python(program).splitlines()
    assert first == "[2.0, 3.0]"
    assert "pip install protobuf" in second


PROGRAM = f"""
import sys
import numpy as np
import onnxruntime
session = onnxruntime.InferenceSession({str(DEMO / "digits.onnx")!r})
x = np.load({str(DEMO / "held_back.npz")!r})["images"][:8]
(y,) = session.run(None, {{"image": x}})
print(type(session).__module__, y.argmax(axis=1).tolist(), __name__, *sys.argv[1:])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*words: object, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "armnet", "exec", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_exec_runs_a_script_with_its_arguments(script: Path) -> None:
    done = run(script, "--option", "-m", "word")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("armnet.standins.onnxruntime.session [")
    assert done.stdout.endswith("__main__ --option -m word\n")


def test_exec_runs_a_module_of_the_working_folder(script: Path) -> None:
    done = run("-m", "program", "word", folder=script.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("__main__ word\n")


def test_programs_that_the_program_starts_have_the_stand_ins_too(script: Path) -> None:
    parent = script.with_name("parent.py")
    parent.write_text(
        "import importlib.metadata, subprocess, sys, armnet.standins\n"
        "assert armnet.standins.install('onnxruntime') == ['onnxruntime']\n"
        "import onnxruntime\n"
        "if __name__ == '__main__':\n"
        "    print(importlib.metadata.version('onnxruntime') == onnxruntime.__version__)\n"
        f"    sys.exit(subprocess.run([sys.executable, {str(script)!r}], check=False).returncode)\n"
    )
    done = run(parent)
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout
    assert "armnet.standins.onnxruntime.session" in done.stdout


def test_packages_that_look_for_tensorflow_do_not_find_a_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(
        "import importlib.util\n"
        "FOUND = importlib.util.find_spec('tensorflow')\n"
        "try:\n    import tensorflow\nexcept ImportError:\n    tensorflow = None\n"
    )
    path = tmp_path / "program.py"
    path.write_text(
        "import library, subprocess, sys\n"
        "import tensorflow as tf\n"
        "print(library.FOUND, library.tensorflow, tf.lite.__name__)\n"
        "child = 'import tensorflow; print(tensorflow.__version__ == {!r})'.format(tf.__version__)\n"
        "sys.exit(subprocess.run([sys.executable, '-c', child], check=False).returncode)\n"
    )
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["None None armnet.standins.tensorflow.lite", "True"]


def test_the_rest_of_tensorflow_says_that_it_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    for line, problem in (
        ("tf.lite; tf.keras", "AttributeError: armnet's stand-in for tensorflow has tf.lite alone, no tf.keras"),
        ("tf.lite.TFLiteConverter", "AttributeError: armnet's stand-in for tensorflow runs .tflite files"),
        (
            "from tensorflow import lite, keras",
            "'tensorflow.keras': armnet's stand-in for tensorflow has tensorflow.lite alone",
        ),
        (
            "import tensorflow.lite, tensorflow.io",
            "'tensorflow.io': armnet's stand-in for tensorflow has tensorflow.lite",
        ),
    ):
        path.write_text(f"import tensorflow as tf\n{line}\n")
        done = run(path)
        assert done.returncode == 1
        assert problem in done.stderr.splitlines()[-1]


def test_a_module_that_a_stand_in_lacks_is_named_as_the_program_names_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    for line, module in (
        ("from caffe2.python import core, rnn_cell", "caffe2.python.rnn_cell"),
        ("import caffe2.python.rnn_cell", "caffe2.python.rnn_cell"),
        ("from caffe import draw", "caffe.draw"),
        ("from onnxruntime import quantization", "onnxruntime.quantization"),
    ):
        path.write_text(line)
        done = run(path)
        assert done.returncode == 1
        package = module.partition(".")[0]
        problem = f"No module named {module!r}: armnet's stand-in for {package} has none"
        assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {problem}"


def test_what_a_program_raises_and_its_exit_status_go_through(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import sys\nsys.exit(7)")
    assert run(path).returncode == 7
    path.write_text("raise LookupError('mine')")
    done = run(path)
    assert done.returncode == 1
    assert "LookupError: mine" in done.stderr
    assert str(path) in done.stderr.splitlines()[1]
    path.write_text("import no_such_package")
    done = run(path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError")


def test_a_program_that_does_not_exist_is_one_line(armnet: Armnet) -> None:
    refused(armnet("exec", "no such program"), "no such program", "no such file or command")
    refused(armnet("exec"), "give a program to run")


def test_a_stub_satisfies_pip_and_goes_without_a_trace(armnet: Armnet, tmp_path: Path) -> None:
    for name in PACKAGES:
        status, out, _ = armnet("standin", "install", name, "--target", tmp_path)
        assert status == 0
        assert "installed" in out
    assert armnet("standin", "install", "--target", tmp_path)[0] == 0  # a second time does no harm
    assert armnet("standin", "list", "--target", tmp_path)[1].count("the stand-in") == len(PACKAGES)
    program = f"""
sys.path.insert(0, {str(tmp_path)!r})
{IMPORTS}
{LATER_IMPORTS}
from importlib.metadata import distribution, version
for name in ("onnxruntime", "tflite-runtime", "ai-edge-litert"):
    found = distribution(name)
    assert all(file.locate().exists() for file in found.files), name
    print(name, version(name), found.files[0].hash.mode)
print(tf.__name__, caffe.__name__, workspace.__name__)
print(onnxruntime.__name__)
"""
    lines = python(program).splitlines()
    assert lines[0] == f"onnxruntime {PACKAGES['onnxruntime'].version} sha256"
    assert lines[-1] == "armnet.standins.onnxruntime"
    assert lines[-2] == "armnet.standins.tensorflow armnet.standins.caffe armnet.standins.caffe2.python.workspace"
    check = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--path", tmp_path], capture_output=True, text=True, check=True
    )
    assert "tflite-runtime" in check.stdout.replace("_", "-")
    assert armnet("standin", "remove", "--target", tmp_path)[0] == 0
    assert list(tmp_path.iterdir()) == []
    assert "not there" in armnet("standin", "remove", "onnxruntime", "--target", tmp_path)[1]


def test_tensorflow_is_installed_by_its_name_alone(armnet: Armnet, tmp_path: Path) -> None:
    assert armnet("standin", "install", "--target", tmp_path)[0] == 0
    assert (tmp_path / "caffe2").exists()
    assert not (tmp_path / "tensorflow").exists()


def test_a_real_package_is_neither_replaced_nor_removed(armnet: Armnet, tmp_path: Path) -> None:
    metadata = tmp_path / "onnxruntime-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.0\n")
    (metadata / "INSTALLER").write_text("pip\n")
    refused(armnet("standin", "install", "onnxruntime", "--target", tmp_path), "the real onnxruntime 1.0")
    refused(armnet("standin", "remove", "onnxruntime", "--target", tmp_path), "the real onnxruntime 1.0")
    assert "the real one, 1.0" in armnet("standin", "list", "onnxruntime", "--target", tmp_path)[1]
