"""Other runtimes on the network of a pair, for ``--against`` of ``armnet bench`` and ``armnet evaluate``.

They run the model that the pair was made from if it can be found, otherwise the pair written as ONNX or TFLite.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm import Pair
from runtime_arm.errors import ExportError, UsageError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array

NOTE = "onnxruntime's threads do not spin between its runs, where they would slow down the runtime whose turn it is"


class Rival(NamedTuple):
    """Another runtime, ready to run.

    name: with its version. runs: the model that it runs. infer: an inference, which returns the outputs. exact: an
    inference by its slow reference kernels, if it has any.
    """

    name: str
    runs: str
    infer: Callable[[], Sequence[Array]]
    exact: Optional[Callable[[], Sequence[Array]]] = None


class Original:
    """The model that a pair was made from: given, or found by the name and the hash that the pair records."""

    def __init__(self, pair: Pair, folder: Path, model: Optional[str] = None):
        self.pair = pair
        self._path = Path(model) if model is not None else _recorded(pair, folder)
        if model is not None and not Path(model).is_file():
            raise UsageError(f"{model}: no such file")

    @property
    def is_tflite(self) -> bool:
        """Whether it is a .tflite file that is there."""
        return self._path is not None and self._path.suffix == ".tflite"

    def onnx(self) -> Tuple[str, Any]:
        """Where it comes from, and the model: a path, or bytes."""
        if self._path is not None and self._path.suffix == ".onnx":
            return self._path.name, os.fspath(self._path)
        from exporter.to_onnx.export import to_onnx

        return "the pair as ONNX", to_onnx(self.pair).SerializeToString()

    def tflite(self) -> Tuple[str, bytes]:
        """Where it comes from, and the model."""
        if self.is_tflite and self._path is not None:
            return self._path.name, self._path.read_bytes()
        from device_tests.host.networks.tflite_writer import tflite_bytes
        from optimize import optimize

        return "the pair as TFLite", tflite_bytes(optimize(self.pair, keep_biases=True))


def _recorded(pair: Pair, folder: Path) -> Optional[Path]:
    """The source that the pair names, if it lies beside the pair or in the current folder."""
    source = pair.meta.get("source") or {}
    name, wanted = source.get("name"), source.get("sha256")
    for place in (folder, folder.parent, Path()) if name and wanted else ():
        path = place / str(name)
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            return path
    return None


def onnxruntime(original: Original, feeds: Mapping[str, Array], threads: int) -> Rival:
    """onnxruntime with its defaults, except the number of its threads, which do not spin."""
    session, name, where = _onnxruntime_session(original, threads)
    try:
        given = _by_name([value.name for value in session.get_inputs()], feeds)
        session.run(None, given)
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnxruntime refuses {where}: {first_line(error)}") from error
    return Rival(name, where, lambda: session.run(None, given))


def _onnxruntime_session(original: Original, threads: int) -> Tuple[Any, str, str]:
    """A session, the runtime's name with its version, and what it runs."""
    with needed_for("running onnxruntime"):
        import onnxruntime as ort
    where, model = original.onnx()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnxruntime refuses {where}: {first_line(error)}") from error
    return session, f"onnxruntime {ort.__version__}", where


def reference(original: Original, feeds: Mapping[str, Array], threads: int) -> Rival:
    """The reference evaluator of the package onnx, which runs on NumPy with as many BLAS threads."""
    with needed_for("timing onnx's reference evaluator"):
        import onnx
        from onnx.reference import ReferenceEvaluator
    where, model = original.onnx()
    try:
        session = ReferenceEvaluator(model if isinstance(model, str) else onnx.load_from_string(model))
        given = _by_name(session.input_names, feeds)
    except Exception as error:  # its exceptions have no common base
        raise ExportError(f"onnx's reference evaluator refuses {where}: {first_line(error)}") from error
    return Rival(f"onnx reference {onnx.__version__}", where, _with_blas_threads(threads, session, given))


def _with_blas_threads(threads: int, session: Any, given: Dict[str, Array]) -> Callable[[], Sequence[Array]]:
    from runtime_arm.machine import blas

    def infer() -> List[Array]:
        with blas.Threads(threads):
            outputs: List[Array] = session.run(None, given)
            return outputs

    return infer


def tflite(original: Original, feeds: Mapping[str, Array], threads: int) -> Rival:
    """LiteRT, or the tflite-runtime that Raspberry Pis carry, with their default kernels."""
    from exporter.tflite.witness import tflite_runtime

    module, name = tflite_runtime()
    where, model = original.tflite()

    def ready(**options: Any) -> Callable[[], List[Array]]:
        interpreter = module.Interpreter(model_content=model, num_threads=threads, **options)
        interpreter.allocate_tensors()
        for tensor, value in zip(interpreter.get_input_details(), feeds.values()):
            interpreter.set_tensor(tensor["index"], _in_order(value, tuple(tensor["shape"])))
        outputs = [tensor["index"] for tensor in interpreter.get_output_details()]

        def infer() -> List[Array]:
            interpreter.invoke()
            return [interpreter.get_tensor(index) for index in outputs]

        return infer

    try:
        infer = ready()
        infer()
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{name} refuses {where}: {first_line(error)}") from error
    return Rival(name, where, infer, lambda: ready(experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF)())


class Answering(NamedTuple):
    """Another runtime that answers one input after the other. run: an inference, from inputs to outputs by the pair's
    names; ExportError where the runtime refuses them."""

    name: str
    run: Callable[[Mapping[str, Array]], Dict[str, Array]]


def answering(runtime: str, original: Original, threads: int) -> Answering:
    """onnxruntime or tflite, ready to answer. UsageError for another name, or for a TFLite model that is not there."""
    if runtime == "onnxruntime":
        return _answering_onnx(original, threads)
    if runtime == "tflite":
        return _answering_tflite(original, threads)
    raise UsageError(f"--against takes onnxruntime or tflite, got {runtime!r}")


def _answering_onnx(original: Original, threads: int) -> Answering:
    session, name, where = _onnxruntime_session(original, threads)
    takes, gives = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))

    def run(feeds: Mapping[str, Array]) -> Dict[str, Array]:
        try:
            outputs = session.run(None, _by_name(takes, feeds))
        except Exception as error:  # its exceptions have no common base
            raise ExportError(f"onnxruntime refuses {where}: {first_line(error)}") from error
        return _by_pair(original.pair, dict(zip(gives, outputs)))

    return Answering(name, run)


def _answering_tflite(original: Original, threads: int) -> Answering:
    from exporter.tflite.witness import tflite_runtime

    if not original.is_tflite:
        raise UsageError("--against tflite runs the .tflite file that the pair was made of: name it with --model")
    module, name = tflite_runtime()
    where, model = original.tflite()
    try:
        interpreter = module.Interpreter(model_content=model, num_threads=threads)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{name} refuses {where}: {first_line(error)}") from error
    takes, gives = interpreter.get_input_details(), interpreter.get_output_details()

    def run(feeds: Mapping[str, Array]) -> Dict[str, Array]:
        try:
            for tensor, value in zip(takes, feeds.values()):
                interpreter.set_tensor(tensor["index"], value)
            interpreter.invoke()
        except (ValueError, RuntimeError) as error:
            raise ExportError(f"{name} refuses an input: {first_line(error)}") from error
        outputs = {tensor["name"]: interpreter.get_tensor(tensor["index"]) for tensor in gives}
        return _by_pair(original.pair, outputs)

    return Answering(name, run)


def _by_pair(pair: Pair, outputs: Mapping[str, Array]) -> Dict[str, Array]:
    """A runtime's outputs by the pair's names: by name if the names agree, else in order."""
    names = [info.name for info in pair.outputs]
    if set(names) <= set(outputs):
        return {name: outputs[name] for name in names}
    if len(names) != len(outputs):
        raise UsageError(f"the model gives {', '.join(outputs)}, the pair {', '.join(names)}")
    return dict(zip(names, outputs.values()))


RIVALS: Mapping[str, Callable[[Original, Mapping[str, Array], int], Rival]] = {
    "onnxruntime": onnxruntime,
    "tflite": tflite,
    "reference": reference,
}


def difference(ours: Sequence[Any], theirs: Sequence[Any]) -> Optional[float]:
    """How far two runs are apart: the largest error of any output, relative to its largest magnitude in ``theirs``.

    Outputs whose sizes differ, and those that are not numbers, are left out; None if none is left.
    """
    errors = [_error(np.asarray(getattr(a, "values", a)), np.asarray(b)) for a, b in zip(ours, theirs)]
    return max((error for error in errors if error is not None), default=None)


def _error(a: Array, b: Array) -> Optional[float]:
    if a.shape != b.shape and a.ndim == b.ndim == 4:
        b = np.moveaxis(b, -1, 1)
    if a.size != b.size or a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None
    a, b = a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64)
    return float(np.abs(a - b).max(initial=0.0) / (np.abs(b).max(initial=0.0) or 1.0))


def _by_name(names: Sequence[str], feeds: Mapping[str, Array]) -> Dict[str, Array]:
    """The inputs by the rival's names: by name if the names agree, else in order."""
    if set(names) <= set(feeds):
        return {name: feeds[name] for name in names}
    if len(names) != len(feeds):
        raise UsageError(f"the model takes {', '.join(names)}, the pair {', '.join(feeds)}")
    return dict(zip(names, feeds.values()))


def _in_order(value: Array, shape: Tuple[int, ...]) -> Array:
    """The input in TFLite's order of dimensions, with the channels last, if that is the shape asked for."""
    if value.shape != shape and value.ndim == 4 and tuple(np.moveaxis(value, 1, -1).shape) == shape:
        return np.ascontiguousarray(np.moveaxis(value, 1, -1))
    return value
