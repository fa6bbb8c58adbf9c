"""MNN as another runtime to compare with."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Mapping

import numpy as np

from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime, by_name, talks_on_stderr
from runtime_arm.errors import ExportError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array

# The converter itself: the script around it, mnnconvert, reports what was converted over the network.
_CONVERT = "import sys, _tools; _tools.mnnconvert(sys.argv)"


def ready(original: Original, feeds: Mapping[str, Array], threads: int) -> OtherRuntime:
    """MNN on a model that its own converter makes from ONNX, in float32."""
    with needed_for("timing MNN"), talks_on_stderr():
        import MNN
        from MNN import expr, nn
    with tempfile.TemporaryDirectory() as name, talks_on_stderr():
        where, path, signature = original.onnx_file(Path(name))
        converted = _converted(where, path, Path(name))
        takes, gives = ([value.name for value in values] for values in (signature.inputs, signature.outputs))
        setting = {"backend": "CPU", "numThread": threads, "precision": "high"}
        runtime = nn.create_runtime_manager((setting,))
        net = nn.load_module_from_file(str(converted), takes, gives, runtime_manager=runtime)
    given = [_as_mnn(value) for value in by_name(takes, feeds).values()]
    kinds = {"f": expr.float, "i": expr.int}
    places = [expr.placeholder(list(value.shape), expr.NCHW, kinds[value.dtype.kind]) for value in given]

    def infer() -> List[Array]:
        for place, value in zip(places, given):
            place.write(value)
        return [expr.convert(answer, expr.NCHW).read() for answer in net.forward(places)]

    try:
        if len(infer()) != len(gives):
            raise RuntimeError("it gives no outputs")
    except Exception as error:  # its errors have no common base
        raise ExportError(f"MNN refuses {where}: {first_line(error)}") from error
    return OtherRuntime(f"MNN {MNN.version()}", where, infer)


def _converted(where: str, model: Path, folder: Path) -> Path:
    path = folder / "model.mnn"
    words = ["-f", "ONNX", "--modelFile", str(model), "--MNNModel", str(path), "--bizCode", "armnet"]
    done = subprocess.run([sys.executable, "-c", _CONVERT, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not path.is_file():
        lines = done.stdout.decode(errors="replace").strip().splitlines() or [
            f"its converter ended with {done.returncode}"
        ]
        raise ExportError(f"MNN refuses {where}: {lines[-1]}")
    return path


def _as_mnn(value: Array) -> Array:
    """MNN has no integers of 64 bits."""
    kind = {"f": np.float32, "i": np.int32}.get(value.dtype.kind)
    if kind is None:
        raise ExportError(f"MNN takes no inputs of {value.dtype}")
    return np.ascontiguousarray(value, kind)
