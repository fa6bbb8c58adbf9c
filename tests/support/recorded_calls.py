"""Runs a script twice, with a real package and with armnet's stand-in for it, and compares the calls that it made.

    compare_calls("onnxruntime", SCRIPTS / "onnx_networks.py", model)

The script is unmodified: the public methods of the package's classes are wrapped to record each call with its
arguments and its result or its exception. Calls that the package makes itself are not recorded.
"""

from __future__ import annotations

import functools
import inspect
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from device_tests.suite.tolerance import WHOLE_NETWORK, assert_network_close
from tests.support.paths import ROOT

# The classes of each package whose calls are recorded, by the module that programs import.
CLASSES: Dict[str, Tuple[str, ...]] = {
    "onnxruntime": ("InferenceSession", "OrtValue", "IOBinding"),
    "ai_edge_litert.interpreter": ("Interpreter", "SignatureRunner"),
    "tflite_runtime.interpreter": ("Interpreter", "SignatureRunner"),
}
# What a real package has and a stand-in answers in its own way.
_OWN = {"get_providers", "get_provider_options", "data_ptr"}


class Call(NamedTuple):
    """A call: ``InferenceSession.run``, its arguments, "value" or "error", and what it returned or raised."""

    name: str
    arguments: Any
    outcome: str
    result: Any


def compare_calls(package: str, script: Path, *words: object, relative: float = WHOLE_NETWORK) -> List[Call]:
    """The recorded calls of the stand-in. AssertionError where they are not those of the real package.

    Floats may differ by ``relative`` of the largest magnitude; integers, shapes, dtypes, names and the types of errors
    are equal.
    """
    real, ours = (recorded(package, script, words, stand_in) for stand_in in (False, True))
    assert_same_calls(ours, real, script.name, relative)
    return ours


def assert_same_calls(ours: Sequence[Call], real: Sequence[Call], name: str, relative: float = WHOLE_NETWORK) -> None:
    """AssertionError unless the recorded calls of a stand-in are those of the real package."""
    for at, (expected, actual) in enumerate(zip(real, ours)):
        what = f"{name}: call {at}, {expected.name}"
        assert actual.name == expected.name, f"{what}: the stand-in's call is {actual.name}"
        _compare(actual.arguments, expected.arguments, f"{what}: arguments", relative)
        assert actual.outcome == expected.outcome, f"{what}: {_short(actual.result)}, not {_short(expected.result)}"
        _compare(actual.result, expected.result, what, relative)
    same_count = len(ours) == len(real)
    assert same_count, f"{name}: {len(ours)} calls, expected {len(real)}"


def recorded(package: str, script: Path, words: Sequence[object], stand_in: bool) -> List[Call]:
    """The calls of a script in an interpreter of its own. AssertionError, with what it printed, if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls")
        mode = "stand-in" if stand_in else "real"
        command = [sys.executable, "-m", "tests.support.recorded_calls", package, mode, path, str(script)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        done = subprocess.run(
            [*command, *map(str, words)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{mode}: {done.stderr[-4000:]}"
        with open(path, "rb") as file:
            return read_calls(file.read())


def read_calls(data: bytes) -> List[Call]:
    """The calls in a file that a recording has written."""
    return [Call(*call) for call in pickle.loads(data)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:300]}..."


def _compare(actual: Any, expected: Any, what: str, relative: float) -> None:
    if isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray), f"{what}: {actual!r} is no array"
        if expected.dtype.kind == "f":
            assert_network_close(actual, expected, relative=relative, what=what)
        else:
            assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
            np.testing.assert_array_equal(actual, expected, err_msg=what)
    elif isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected), f"{what}: {_short(actual)}, expected {_short(expected)}"
        assert len(actual) == len(expected), f"{what}: {_short(actual)}, expected {_short(expected)}"
        for at, pair in enumerate(zip(actual, expected)):
            _compare(*pair, f"{what}[{at}]", relative)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{what}: the keys are {list(actual)}, expected {list(expected)}"
        for key, value in expected.items():
            _compare(actual[key], value, f"{what}[{key!r}]", relative)
    else:
        assert actual == expected, f"{what}: {_short(actual)}, expected {_short(expected)}"


def _described(value: Any) -> Any:
    """A value in terms of plain types and arrays, which do not depend on the package."""
    if type(value) is int and 1 << 20 < value < 1 << 62:
        return "an address"
    if isinstance(value, str) and (".onnx" in value or ".tflite" in value):
        return os.path.basename(value)
    if type(value) in (type(None), bool, int, float, str):
        return value
    if isinstance(value, np.ndarray):
        return value if value.dtype != object else ("strings", value.shape, value.ravel().tolist())
    if isinstance(value, np.generic):
        return ("scalar", value.dtype.name, value.item())
    if isinstance(value, (list, tuple)):
        return type(value)(_described(item) for item in value)
    if isinstance(value, dict):
        return {key: _described(item) for key, item in value.items()}
    if isinstance(value, (bytes, os.PathLike)):
        return "bytes or path"
    if isinstance(value, type):
        return ("type", value.__name__)
    kind = type(value).__name__
    fields = {
        "NodeArg": ("name", "type", "shape"),
        "ModelMetadata": ("producer_name", "graph_name", "domain", "description", "graph_description", "version"),
    }.get(kind, ())
    if kind == "OrtValue":
        return (kind, value.data_type(), value.numpy())
    if kind.endswith(("Level", "Mode", "Type")) and hasattr(value, "name"):
        return (kind, value.name)
    return (kind, *(_described(getattr(value, field)) for field in fields))


def _error(error: BaseException) -> Any:
    names = [kind.__name__ for kind in type(error).__mro__]
    return tuple(names[: names.index("Exception") + 1])


class _Recorder:
    def __init__(self) -> None:
        self.calls: List[Tuple[str, Any, str, Any]] = []
        self._depth = 0

    def wrap(self, name: str, function: Callable[..., Any], skip: int) -> Callable[..., Any]:
        """A function that records its calls. skip: how many arguments in front are no business of the caller's."""

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if self._depth:
                return function(*args, **options)
            given = _described([*args[skip:], options])
            self._depth += 1
            try:
                result = function(*args, **options)
            except Exception as error:
                self.calls.append((name, given, "error", _error(error)))
                raise
            finally:
                self._depth -= 1
            shown = None if name.rpartition(".")[2] in _OWN else _described(result)
            self.calls.append((name, given, "value", shown))
            return result

        return call

    def watch(self, module: Any, class_name: str) -> None:
        """Record the calls of the public methods of a class, and of its constructor."""
        kind = getattr(module, class_name)
        names = [name for name in dir(kind) if not name.startswith("_") or name in ("__init__", "__call__")]
        for name in names:
            found = inspect.getattr_static(kind, name)
            title = f"{class_name}.{name}"
            if isinstance(found, (staticmethod, classmethod)):
                setattr(kind, name, staticmethod(self.wrap(title, getattr(kind, name), 0)))
            elif inspect.isfunction(found):
                setattr(kind, name, self.wrap(title, found, 1))


def _main(package: str, mode: str, path: str, script: str, *words: str) -> None:
    if mode == "stand-in":
        from armnet.standins import install

        install(package.partition(".")[0], force=True)
    module = import_module(package)
    recorder = _Recorder()
    for name in CLASSES[package]:
        recorder.watch(module, name)
    sys.argv = [script, *words]
    runpy.run_path(script, run_name="__main__")
    with open(path, "wb") as file:
        pickle.dump(recorder.calls, file)


if __name__ == "__main__":
    _main(*sys.argv[1:])
