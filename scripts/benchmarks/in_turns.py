"""Times one network by armnet and by onnxruntime, in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import numpy as np

import armnet
from armnet.other_runtimes import Original, difference, onnxruntime
from armnet.timing import take_turns
from device_tests.host.networks.known import build
from optimize import optimize
from runtime_arm import Pair
from runtime_arm.netdef import Array
from scripts.benchmarks.part import Row

NETWORKS = (
    "vgg16_conv",
    "resnet18",
    "resnet50",
    "squeezenet1_1",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
)


def export_known(name: str, folder: Path, **options: Any) -> Pair:
    """A known network with random weights, exported and optimised; its ONNX file is written to the folder."""
    model = folder / f"{name}.onnx"
    model.write_bytes(build(name, **options).SerializeToString())
    return optimize(armnet.export(str(model)))


def picture(batch: int = 1, size: int = 224) -> Array:
    """Random input with the statistics of prepared pictures."""
    return np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype(np.float32)


def compare(pair: Pair, model: Optional[Path], feeds: Mapping[str, Array], threads: int, runs: int) -> Row:
    """Times of both in seconds, with quartiles, CPU times, their ratio, and the difference of the outputs.

    model: the file that onnxruntime runs; None for the pair written as ONNX.
    """
    with armnet.Predictor(pair, threads=threads) as predictor:
        other = onnxruntime.ready(Original(pair, Path(), None if model is None else str(model)), feeds, threads)
        ours, theirs = "armnet", "onnxruntime"
        figures, warnings = take_turns({ours: lambda: predictor.run(feeds), theirs: other.infer}, runs)
        apart = difference(list(predictor.run(feeds).values()), other.infer())
    row: Row = {"threads": threads, "difference": apart, "warnings": warnings}
    for name in (ours, theirs):
        row.update({f"{name}_{key}": value for key, value in figures[name].as_dict().items()})
    return {**row, "ratio": figures[ours].seconds / figures[theirs].seconds}


def mean_ratio(rows: Sequence[Row]) -> float:
    """The geometric mean of the rows' ratios."""
    return float(np.exp(np.mean(np.log([row["ratio"] for row in rows]))))
