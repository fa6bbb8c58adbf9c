"""Recurrent networks and transformers with random weights, compared with onnxruntime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import List

import armnet
from armnet.console import note
from optimize import optimize
from scripts.benchmarks.in_turns import compare
from scripts.benchmarks.networks import COLUMNS
from scripts.benchmarks.part import Options, Part, Row, number
from scripts.benchmarks.sequence_networks import NETWORKS

REMARK = (
    "Random weights, batch 1 unless the name says otherwise. gru, lstm, bilstm: two layers of 128, 100 steps. gpt_128: "
    "6 layers of 512, 128 tokens at once; gpt_cached: one token after 128 that are kept."
)


def measure(options: Options) -> List[Row]:
    rows: List[Row] = []
    for name in [name for name in options.networks if name in NETWORKS] or NETWORKS:
        note(f"timing {name}")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.onnx")
            network = NETWORKS[name]()
            path.write_bytes(network.model.SerializeToString())
            pair = optimize(armnet.export(str(path)))
            for threads in options.threads:
                row = compare(pair, path, network.feeds, threads, options.runs)
                cpu = row["armnet_cpu_seconds"] / row["onnxruntime_cpu_seconds"]
                rows.append({"network": name, "cpu_ratio": cpu, **row})
    return rows


PART = Part(
    "Recurrent networks and transformers", measure, {**COLUMNS, "CPU ratio": number("cpu_ratio")}, remark=REMARK
)
