"""Every float network among the shared models, whatever made it, beside onnxruntime."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

import armnet
from armnet.console import note
from exporter.random_inputs import random_inputs
from optimize import optimize
from runtime_arm import Pair
from runtime_arm.errors import ArmnetError
from scripts.benchmarks.beside import compare
from scripts.benchmarks.networks import COLUMNS
from scripts.benchmarks.part import Options, Part, Row, word

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"
REMARK = (
    "Every float network of the shared models, on random inputs. onnxruntime runs the ONNX file or, of other formats, "
    "the pair as ONNX."
)


def sources(folder: Path) -> Iterator[Tuple[str, ...]]:
    """The files of each model."""
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
    """Whether nothing in it computes with 8-bit numbers."""
    types = {op.type for op in pair.predict_net.op}
    return not any("Int8" in type or "Linear" in type or "Integer" in type for type in types - {"LinearInterp"})


def shapes_of(paths: Sequence[str], pair: Pair) -> Dict[str, List[int]]:
    """What the manifest says of the only input, where the model leaves it open."""
    files = json.loads((SHARED / "MANIFEST.json").read_text())["files"]
    said = [str(entry.get("input", "")) for entry in files if str(SHARED / entry["file"]) in paths]
    found = next(filter(None, (re.match(r"\d+(x\d+)+", text) for text in said)), None)
    info = pair.inputs[0]
    is_open = info.shape is None or not all(isinstance(size, int) for size in info.shape)
    if found is None or len(pair.inputs) != 1 or not is_open:
        return {}
    return {info.name: [int(size) for size in found.group().split("x")]}


def measure(options: Options) -> List[Row]:
    rows: List[Row] = []
    if not SHARED.is_dir():
        note(f"no shared models in {SHARED}")
        return rows
    for paths in sources(SHARED):
        name = str(Path(paths[-1]).relative_to(SHARED))
        try:
            pair = armnet.export(*paths)
            if not is_float(pair):
                continue
            note(f"timing {name}")
            feeds = random_inputs(pair, shapes=shapes_of(paths, pair))
            pair = optimize(pair)
            model = Path(paths[0]) if paths[0].endswith(".onnx") else None
            for threads in options.threads:
                rows.append({"network": name, **compare(pair, model, feeds, threads, options.runs)})
        except ArmnetError as error:
            note(f"{name}: {error}")
            rows.append({"network": name, "threads": "", "refused": str(error)[:160]})
    return rows


PART = Part("Models in use", measure, {**COLUMNS, "": word("refused")}, remark=REMARK)
