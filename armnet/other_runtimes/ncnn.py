"""ncnn as another runtime to compare with."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, List, Mapping, Sequence

import numpy as np

from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime, by_name
from runtime_arm.errors import ExportError, MissingDependency
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array


def ready(original: Original, feeds: Mapping[str, Array], threads: int) -> OtherRuntime:
    """ncnn on a model that pnnx makes from ONNX. Weights and arithmetic are float32; by default it stores halves."""
    with needed_for("timing ncnn"):
        import ncnn
    with tempfile.TemporaryDirectory() as name:
        where, path, signature = original.onnx_file(Path(name))
        given = list(by_name([value.name for value in signature.inputs], feeds).values())
        if any(value.dtype != np.float32 or value.ndim < 2 or value.shape[0] != 1 for value in given):
            raise ExportError(f"ncnn refuses {where}: it takes only float32 inputs with a batch of 1")
        net = _loaded(ncnn, where, _converted(where, path, given, Path(name)), threads)
    takes, gives = net.input_names(), net.output_names()
    if len(takes) != len(given) or len(gives) != len(signature.outputs):
        raise ExportError(f"ncnn refuses {where}: its converter gives {len(takes)} inputs and {len(gives)} outputs")

    def infer() -> List[Array]:
        extractor = net.create_extractor()
        for blob, value in zip(takes, given):
            extractor.input(blob, ncnn.Mat(value[0]))
        found = [extractor.extract(blob) for blob in gives]
        if any(status for status, _ in found):
            raise ExportError(f"ncnn refuses {where}: it stops before the end")
        return [np.array(answer) for _, answer in found]

    infer()
    return OtherRuntime(f"ncnn {ncnn.__version__}", where, infer)


def _converted(where: str, model: Path, given: Sequence[Array], folder: Path) -> Path:
    """The model in ncnn's form, without its suffix. It calls pnnx itself: the script around it needs PyTorch."""
    package = find_spec("pnnx")
    if package is None or package.origin is None:
        raise MissingDependency("timing ncnn needs the package pnnx: pip install ncnn pnnx")
    copy = folder / "net.onnx"
    shutil.copy(model, copy)
    shapes = ",".join(f"[{','.join(map(str, value.shape))}]f32" for value in given)
    program = Path(package.origin).with_name("pnnx")
    words = [str(program), copy.name, f"inputshape={shapes}", "fp16=0"]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not (folder / "net.ncnn.bin").is_file():
        raise ExportError(f"ncnn refuses {where}: its converter, pnnx, ended with status {done.returncode}")
    return folder / "net.ncnn"


def _loaded(ncnn: Any, where: str, path: Path, threads: int) -> Any:
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    if net.load_param(f"{path}.param") or net.load_model(f"{path}.bin"):
        raise ExportError(f"ncnn refuses {where}: it has an operator that ncnn lacks")
    return net
