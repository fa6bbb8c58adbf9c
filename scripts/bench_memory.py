"""The most memory that whole processes hold while they run a network once: ``armnet run`` and onnxruntime."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence

import numpy as np

import armnet
from device_tests.host import processes
from device_tests.host.networks import build
from optimize import optimize
from runtime_arm.display import size, table

NETWORKS = ("vgg16", "mobilenet_v2")
SESSION = """\
import sys, numpy as np, onnxruntime as ort
o = ort.SessionOptions()
o.intra_op_num_threads = 1
s = ort.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
np.savez(sys.argv[3], *s.run(None, {s.get_inputs()[0].name: np.load(sys.argv[2])}))
"""


def peak_memory(folder: Path, rounds: int, networks: Sequence[str] = NETWORKS) -> List[Dict[str, Any]]:
    """One row a network, random weights at 224x224, batch 1: the largest resident sets in bytes, mapped files included.

    Both run on one core, in one process; ours runs the pair that ``armnet optimize`` made.
    """
    return [_peaks(name, folder, rounds) for name in networks]


def _peaks(name: str, folder: Path, rounds: int) -> Dict[str, Any]:
    model, pair, given, output = (str(folder / f"{name}{end}") for end in (".onnx", "", ".npy", ".npz"))
    Path(model).write_bytes(build(name).SerializeToString())
    optimize(armnet.export(model)).save(pair)
    np.save(given, np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32))
    ours = [sys.executable, "-m", "armnet", "run", pair, "--input", given, "--output", output, "--threads", "1"]
    theirs = [sys.executable, "-c", SESSION, model, given, output]
    costs = processes.interleaved({"armnet": ours, "onnxruntime": theirs}, rounds)
    armnet_nbytes, onnxruntime_nbytes = (costs[who].peak_nbytes for who in ("armnet", "onnxruntime"))
    return {"network": name, "armnet_nbytes": armnet_nbytes, "onnxruntime_nbytes": onnxruntime_nbytes,
            "ratio": armnet_nbytes / onnxruntime_nbytes}


def print_text(rows: Sequence[Dict[str, Any]]) -> None:
    """A table for people."""
    cells = [[row["network"], size(row["armnet_nbytes"]), size(row["onnxruntime_nbytes"]), f"{row['ratio']:.2f}"]
             for row in rows]
    columns = ["peak memory, 1 core", "armnet", "onnxruntime", "ratio"]
    print(table(columns, cells, right=columns[1:]))
