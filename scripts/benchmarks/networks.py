"""Known networks with random weights beside onnxruntime, on this NumPy and on an older one."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import List

import numpy as np

from armnet.console import note
from runtime_arm.machine import blas
from scripts.benchmarks.in_turns import NETWORKS, compare, export_known, picture
from scripts.benchmarks.part import Options, Part, Row, number, word

MORE_NETWORKS = (*NETWORKS, "densenet121", "googlenet")
COLUMNS = {
    "network": word("network"),
    "threads": word("threads"),
    "armnet ms": number("armnet_seconds", "{:.2f}", 1e3),
    "onnxruntime ms": number("onnxruntime_seconds", "{:.2f}", 1e3),
    "ratio": number("ratio"),
    "armnet CPU ms": number("armnet_cpu_seconds", "{:.2f}", 1e3),
    "onnxruntime CPU ms": number("onnxruntime_cpu_seconds", "{:.2f}", 1e3),
    "spread": number("armnet_spread", "{:.0%}"),
    "difference": number("difference", "{:.0e}"),
}
REMARK = (
    "Float32, batch 1, 224x224. Medians of runs in turns. Ratio: armnet's time divided by onnxruntime's, which runs "
    "with its default optimisations and as many threads, which do not spin between runs. Spread: the distance between "
    "armnet's quartiles, relative to the median. Difference: the largest error of an output between the two, relative "
    "to its largest magnitude."
)


def measure(options: Options) -> List[Row]:
    rows: List[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for network in options.networks or MORE_NETWORKS:
            note(f"timing {network}")
            pair = export_known(network, Path(name))
            feeds = {pair.inputs[0].name: picture()}
            for threads in options.threads:
                row = compare(pair, Path(name, f"{network}.onnx"), feeds, threads, options.runs)
                rows.append({"network": network, "numpy": np.__version__, "blas": _blas_core(), **row})
    return rows


def _blas_core() -> str:
    """The processor for which OpenBLAS has chosen its kernels."""
    library = blas.loaded()
    return library.core if library is not None else ""


def measure_on_both(options: Options) -> List[Row]:
    """The same rows for this NumPy and for an older one, which this program measures in another environment.

    Both BLAS libraries use the kernels that the newer one chose, since the older one may not know the processor.
    """
    if not options.other_python:
        note("there is no older NumPy to compare with; give --other-python")
        return []
    rows = measure(options)
    with tempfile.TemporaryDirectory() as name:
        results = Path(name, "other.json")
        words = [options.other_python, "-m", "scripts.benchmarks", "--parts", "networks", "--json", str(results)]
        words += ["--runs", str(options.runs), "--threads", ",".join(map(str, options.threads))]
        words += ["--networks", *(options.networks or MORE_NETWORKS)]
        environment = {**os.environ, "OPENBLAS_CORETYPE": _blas_core()}
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=environment)
        rows += json.loads(results.read_text())["parts"]["networks"]
    return sorted(rows, key=lambda row: (row["network"], row["threads"]))


PART = Part("Known networks", measure, COLUMNS, remark=REMARK)
NUMPY_PART = Part(
    "An older NumPy",
    measure_on_both,
    {"NumPy": word("numpy"), "BLAS kernels": word("blas"), **COLUMNS},
    names=3,
    remark="OpenBLAS uses the same kernels in both: by itself, an old one chooses slow kernels for a new processor.",
)
