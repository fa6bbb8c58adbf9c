"""Tiny networks, compared with onnxruntime: here the overhead of a call matters more than the arithmetic."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Callable, List

import armnet
from armnet.console import note
from armnet.other_runtimes import Original, difference, onnxruntime
from armnet.timing import take_turns
from optimize import optimize
from scripts.benchmarks.part import Options, Part, Row, number, word
from scripts.benchmarks.tiny_networks import NETWORKS

TOGETHER = 100  # inferences that are timed together: one takes no longer than it takes to look at the clock


def measure(options: Options) -> List[Row]:
    """One thread: there is nothing to split."""
    names = [name for name in options.networks if name in NETWORKS] or NETWORKS
    with tempfile.TemporaryDirectory() as folder:
        return [_measured(name, Path(folder, f"{name}.onnx"), options.runs) for name in names]


def _measured(name: str, model: Path, runs: int) -> Row:
    note(f"timing {name}")
    network = NETWORKS[name]()
    model.write_bytes(network.model.SerializeToString())
    pair, feeds = optimize(armnet.export(str(model))), network.feeds
    with armnet.Predictor(pair, threads=1) as predictor:
        other = onnxruntime.ready(Original(pair, Path(), str(model)), feeds, 1)
        candidates = {"armnet": _often(lambda: predictor.run(feeds)), "onnxruntime": _often(other.infer)}
        figures, warnings = take_turns(candidates, runs)
        apart = difference(list(predictor.run(feeds).values()), other.infer())
    row: Row = {"network": name, "difference": apart, "warnings": warnings, "spread": figures["armnet"].spread}
    for who, figure in figures.items():
        row[f"{who}_seconds"] = figure.seconds / TOGETHER
        row[f"{who}_cpu_seconds"] = figure.cpu_seconds / TOGETHER
    return {**row, "ratio": row["armnet_cpu_seconds"] / row["onnxruntime_cpu_seconds"]}


def _often(infer: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(TOGETHER):
            infer()

    return run


PART = Part(
    "Tiny networks",
    measure,
    {
        "network": word("network"),
        "armnet µs": number("armnet_seconds", "{:.0f}", 1e6),
        "onnxruntime µs": number("onnxruntime_seconds", "{:.0f}", 1e6),
        "armnet CPU µs": number("armnet_cpu_seconds", "{:.0f}", 1e6),
        "onnxruntime CPU µs": number("onnxruntime_cpu_seconds", "{:.0f}", 1e6),
        "CPU ratio": number("ratio"),
        "spread": number("spread", "{:.0%}"),
        "difference": number("difference", "{:.0e}"),
    },
    remark=f"Float32, batch 1, one thread, random weights; {TOGETHER} inferences are timed together. Ratio: armnet's "
    "processor time divided by onnxruntime's.",
)
