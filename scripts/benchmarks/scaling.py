"""Time by image size and by batch, and the memory of a large convolution."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

from armnet.console import note
from scripts.benchmarks.in_turns import compare, export_known, picture
from scripts.benchmarks.large_convolution import CHANNELS, SIZE
from scripts.benchmarks.part import Options, Part, Row, nbytes, number, word

NETWORKS = ("squeezenet1_1", "mobilenet_v2", "resnet18")
SIZES = (64, 128, 224, 320, 512, 768, 1024)
BATCHES = (1, 2, 4, 8, 16, 32)
MOST_RUNS = 7


def by_size(options: Options) -> List[Row]:
    rows: List[Row] = []
    for network in options.networks or NETWORKS:
        for size in SIZES:
            rows += _rows(network, 1, size, options)
    return rows


def by_batch(options: Options) -> List[Row]:
    rows: List[Row] = []
    for network in options.networks or NETWORKS:
        for batch in BATCHES:
            rows += _rows(network, batch, 224, options)
    return rows


def _rows(network: str, batch: int, size: int, options: Options) -> List[Row]:
    note(f"timing {network}, batch {batch}, {size}x{size}")
    with tempfile.TemporaryDirectory() as name:
        pair = export_known(network, Path(name), batch=batch, image_size=size)
        feeds = {pair.inputs[0].name: picture(batch, size)}
        rows: List[Row] = []
        for threads in options.threads:
            row = compare(pair, Path(name, f"{network}.onnx"), feeds, threads, min(options.runs, MOST_RUNS))
            each = row["armnet_seconds"] / batch
            about = {"network": network, "batch": batch, "size": size, "image_seconds": each}
            rows.append({**about, "pixel_seconds": each / size**2, **row})
    return rows


def large_convolution(options: Options) -> List[Row]:
    """The memory that the runtime allocates for a convolution in addition to the caller's input and output."""
    words = [sys.executable, "-m", "scripts.benchmarks.large_convolution"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    facts = json.loads(done.stdout)
    name = f"3x3 convolution, {SIZE}x{SIZE}x{CHANNELS}"
    arena, peak = (facts[key] / facts["blobs_nbytes"] for key in ("arena_nbytes", "peak_nbytes"))
    return [{"what": name, **facts, "arena_ratio": arena, "peak_ratio": peak}]


_TIMES = {"armnet ms an image": number("image_seconds", "{:.2f}", 1e3), "ratio to onnxruntime": number("ratio")}
_NETWORK = {"network": word("network"), "threads": word("threads")}
SIZE_PART = Part(
    "Time by image size",
    by_size,
    {
        **_NETWORK,
        "image": lambda row: f"{row['size']}x{row['size']}",
        "ns a pixel": number("pixel_seconds", "{:.1f}", 1e9),
        **_TIMES,
    },
    remark="Batch 1.",
)
BATCH_PART = Part("Time by batch", by_batch, {**_NETWORK, "batch": word("batch"), **_TIMES}, remark="224x224.")
MEMORY_PART = Part(
    "Memory of a large convolution",
    large_convolution,
    {
        "": word("what"),
        "engine": word("engine"),
        "input and output": nbytes("blobs_nbytes"),
        "arena": nbytes("arena_nbytes"),
        "arena / blobs": number("arena_ratio"),
        "process grows by": nbytes("peak_nbytes"),
        "growth / blobs": number("peak_ratio"),
    },
    names=2,
    remark="The arena holds input, output and scratch memory; the caller's own input and output are not counted.",
)
