"""Other runtimes on the network of a pair: what ``armnet bench --against`` and ``scripts/bench`` time.

They run the model from which the pair was made, where it is at hand, else what the pair is as ONNX or TFLite.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm import Pair
from runtime_arm.errors import ExportError, MissingDependency, UsageError
from runtime_arm.netdef import Array

NOTE = "onnxruntime's threads do not spin between its runs: they would take the cores from whom the turn is"


class Rival(NamedTuple):
    """Another runtime, ready: its name and version, what it runs, and an inference, which returns its outputs."""

    name: str
    runs: str
    infer: Callable[[], Sequence[Array]]


class Original:
    """The model that a pair was made from: given, or found by the name and the hash that the pair recorded."""

    def __init__(self, pair: Pair, folder: Path, model: Optional[str] = None):
        self.pair = pair
        self._path = Path(model) if model is not None else _recorded(pair, folder)
        if model is not None and not Path(model).is_file():
            raise UsageError(f"{model}: no such file")

    def onnx(self) -> Tuple[str, Any]:
        """Where it comes from, and the model: a path, or bytes."""
        if self._path is not None and self._path.suffix == ".onnx":
            return self._path.name, os.fspath(self._path)
        from exporter.to_onnx.export import to_onnx

        return "the pair as ONNX", to_onnx(self.pair).SerializeToString()

    def tflite(self) -> Tuple[str, bytes]:
        """Where it comes from, and the model."""
        if self._path is not None and self._path.suffix == ".tflite":
            return self._path.name, self._path.read_bytes()
        from device_tests.host.networks.tflite_writer import tflite_bytes
        from optimize import optimize

        return "the pair as TFLite", tflite_bytes(optimize(self.pair, keep_biases=True))


def _recorded(pair: Pair, folder: Path) -> Optional[Path]:
    """The source that the pair names, beside the pair or where the command runs."""
    source = pair.meta.get("source") or {}
    name, wanted = source.get("name"), source.get("sha256")
    for place in (folder, folder.parent, Path()) if name and wanted else ():
        path = place / str(name)
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            return path
    return None


def onnxruntime(original: Original, feeds: Mapping[str, Array], threads: int) -> Rival:
    """onnxruntime as it comes, but for the number of its threads and their spinning."""
    ort = _module("onnxruntime", "onnxruntime", "validate")
    where, model = original.onnx()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        given = _by_name([value.name for value in session.get_inputs()], feeds)
        session.run(None, given)
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnxruntime refuses {where}: {_first_line(error)}") from error
    return Rival(f"onnxruntime {ort.__version__}", where, lambda: session.run(None, given))


def reference(original: Original, feeds: Mapping[str, Array], threads: int) -> Rival:
    """The reference evaluator of the package onnx: NumPy, too. It takes what threads NumPy's BLAS has."""
    onnx = _module("onnx", "onnx", "export")
    evaluator = _module("onnx.reference", "onnx", "export")
    where, model = original.onnx()
    try:
        session = evaluator.ReferenceEvaluator(model if isinstance(model, str) else onnx.load_from_string(model))
        given = _by_name(session.input_names, feeds)
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnx's reference evaluator refuses {where}: {_first_line(error)}") from error
    return Rival(f"onnx reference {onnx.__version__}", where, _with_blas_threads(threads, session, given))


def _with_blas_threads(threads: int, session: Any, given: Dict[str, Array]) -> Callable[[], Sequence[Array]]:
    from runtime_arm.machine import blas

    def infer() -> List[Array]:
        with blas.Threads(threads):
            outputs: List[Array] = session.run(None, given)
            return outputs

    return infer


def tflite(original: Original, feeds: Mapping[str, Array], threads: int) -> Rival:
    """LiteRT, or the tflite-runtime that Raspberry Pis carry."""
    module, name = _tflite_runtime()
    where, model = original.tflite()
    try:
        interpreter = module.Interpreter(model_content=model, num_threads=threads)
        interpreter.allocate_tensors()
        for tensor, value in zip(interpreter.get_input_details(), feeds.values()):
            interpreter.set_tensor(tensor["index"], _in_order(value, tuple(tensor["shape"])))
        interpreter.invoke()
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{name} refuses {where}: {_first_line(error)}") from error
    outputs = [tensor["index"] for tensor in interpreter.get_output_details()]

    def infer() -> List[Array]:
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return Rival(name, where, infer)


RIVALS: Mapping[str, Callable[[Original, Mapping[str, Array], int], Rival]] = {
    "onnxruntime": onnxruntime,
    "tflite": tflite,
    "reference": reference,
}


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> Optional[float]:
    """The largest difference of two first outputs, relative to the largest number; None if their sizes differ."""
    a, b = (np.asarray(getattr(outputs[0], "values", outputs[0])) for outputs in (ours, theirs))
    if a.shape != b.shape and a.ndim == 4:
        b = np.moveaxis(b, -1, 1) if b.ndim == 4 else b
    if a.size != b.size or a.dtype.kind not in "fiub":
        return None
    a, b = a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64)
    return float(np.abs(a - b).max(initial=0.0) / (np.abs(b).max(initial=0.0) or 1.0))


def _by_name(names: Sequence[str], feeds: Mapping[str, Array]) -> Dict[str, Array]:
    """The inputs by the rival's names: the same, or in the same order."""
    if set(names) <= set(feeds):
        return {name: feeds[name] for name in names}
    if len(names) != len(feeds):
        raise UsageError(f"the model takes {', '.join(names)}, the pair {', '.join(feeds)}")
    return dict(zip(names, feeds.values()))


def _in_order(value: Array, shape: Tuple[int, ...]) -> Array:
    """In the order of TFLite's dimensions, in which channels are last."""
    if value.shape != shape and value.ndim == 4 and tuple(np.moveaxis(value, 1, -1).shape) == shape:
        return np.ascontiguousarray(np.moveaxis(value, 1, -1))
    return value


def _tflite_runtime() -> Tuple[Any, str]:
    """The module with the Interpreter, and the package with its version."""
    from importlib import import_module
    from importlib.metadata import version

    for module, package in (
        ("ai_edge_litert.interpreter", "ai-edge-litert"),
        ("tflite_runtime.interpreter", "tflite-runtime"),
    ):
        try:
            return import_module(module), f"{package} {version(package)}"
        except ImportError:
            continue
    raise MissingDependency("timing TFLite needs ai-edge-litert or tflite-runtime: pip install 'armnet[validate]'")


def _module(name: str, package: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependency(f"timing {package} needs it: pip install 'armnet[{extra}]'") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]
