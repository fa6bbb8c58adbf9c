"""Every float network among the shared models, of any format, compared with onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import numpy as np

import armnet
from armnet.console import note
from exporter.bundle.random_inputs import random_inputs
from optimize import optimize
from runtime_arm import Pair
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Array
from scripts.benchmarks.in_turns import compare
from scripts.benchmarks.networks import COLUMNS
from scripts.benchmarks.part import Options, Part, Row, word

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
REMARK = (
    "Every float network of the shared models, on recorded inputs. onnxruntime runs the ONNX file if there is one, and "
    "otherwise the pair written as ONNX."
)


def sources(folder: Path) -> Iterator[Tuple[str, ...]]:
    """The files of each model in a folder."""
    for path in sorted([*folder.rglob("*.onnx"), *folder.rglob("*.tflite")]):
        yield (str(path),)
    for path in sorted(folder.rglob("*.caffemodel")):
        texts = sorted(path.parent.glob("*.prototxt"), key=lambda text: _common_start(text.stem, path.stem))
        if texts:
            yield str(texts[-1]), str(path)
    for path in sorted(folder.rglob("*init_net.pb")):
        nets = sorted(path.parent.glob("*predict_net.pb*"))
        if nets:
            yield str(path), str(nets[0])


def _common_start(one: str, other: str) -> int:
    same = [a == b for a, b in zip(one.lower(), other.lower())]
    return same.index(False) if False in same else len(same)


def is_float(pair: Pair) -> bool:
    """Whether none of the pair's weights are 8-bit numbers."""
    carried = [arg.t.dtype for op in pair.init_net.op for arg in op.arg if arg.t is not None]
    in_bytes = any(dtype.kind in "iu" and dtype.itemsize == 1 for dtype in carried)
    return not in_bytes and not any(op.type.startswith("Int8") for op in pair.init_net.op)


def inputs_of(source: str, pair: Pair) -> Dict[str, Array]:
    """The recorded inputs of the model at a path, one picture of several; random ones if there are none."""
    folders = Path(source).with_suffix("").parts
    wanted, recorded = _plain("".join(folders)), sorted((SHARED / "references").glob("*.npz"))
    fitting = [path for path in recorded if all(_plain(part) in wanted for part in path.stem.split("_"))]
    if not fitting:
        return random_inputs(pair)
    with np.load(max(fitting, key=lambda path: len(path.stem))) as record:
        given = {key[3:]: record[key] for key in record.files if key.startswith("in_")}
        if not given:
            given = {pair.inputs[0].name: record["input"][:1]}
    names = [info.name for info in pair.inputs]
    return given if sorted(given) == sorted(names) else random_inputs(pair)


def _plain(text: str) -> str:
    return re.sub(r"[^0-9a-z]", "", text.lower())


def measure(options: Options) -> List[Row]:
    rows: List[Row] = []
    folder = SHARED
    if not SHARED.is_dir():
        note(f"no shared models in {SHARED}: the demo's network takes their place")
        folder = ROOT / "demo"
    for paths in sources(folder):
        name = str(Path(paths[-1]).relative_to(folder))
        try:
            pair = armnet.export(*paths)
            if not is_float(pair):
                continue
            note(f"timing {name}")
            feeds = inputs_of(name, pair)
            pair = optimize(pair)
            model = Path(paths[0]) if paths[0].endswith(".onnx") else None
            for threads in options.threads:
                rows.append({"network": name, **compare(pair, model, feeds, threads, options.runs)})
        except ArmnetError as error:
            note(f"{name}: {error}")
            rows.append({"network": name, "threads": "", "refused": str(error)[:160]})
    return rows


PART = Part("Models in use", measure, {**COLUMNS, "": word("refused")}, remark=REMARK)
