"""Times whole processes, from their start to the first output, and measures their peak memory."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import List

import numpy as np

from armnet.console import note
from device_tests.host.counting import processes
from scripts.benchmarks.in_turns import export_known, picture
from scripts.benchmarks.part import Options, Part, Row, nbytes, number, word

NETWORKS = ("squeezenet1_1", "mobilenet_v2", "vgg16")
SESSION = """\
import sys, numpy as np, onnxruntime as ort
o = ort.SessionOptions()
o.intra_op_num_threads = int(sys.argv[4])
s = ort.InferenceSession(sys.argv[1], o, providers=["CPUExecutionProvider"])
np.savez(sys.argv[3], *s.run(None, {s.get_inputs()[0].name: np.load(sys.argv[2])}))
"""


def measure(options: Options) -> List[Row]:
    """``armnet run`` on the optimised pair, and a script that does the same with onnxruntime."""
    rows: List[Row] = []
    with tempfile.TemporaryDirectory() as name:
        for network in options.networks or NETWORKS:
            note(f"starting {network}")
            model, pair, given, output = (str(Path(name, network + end)) for end in (".onnx", "", ".npy", ".npz"))
            export_known(network, Path(name)).save(pair)
            np.save(given, picture())
            for threads in options.threads:
                run = ["run", pair, "--input", given, "--output", output, "--threads", str(threads)]
                ours = [sys.executable, "-m", "armnet", *run]
                theirs = [sys.executable, "-c", SESSION, model, given, output, str(threads)]
                costs = processes.interleaved({"armnet": ours, "onnxruntime": theirs}, min(options.runs, 7))
                row: Row = {"network": network, "threads": threads}
                for who, cost in costs.items():
                    row.update({f"{who}_seconds": cost.seconds, f"{who}_nbytes": cost.peak_nbytes})
                rows.append({**row, "ratio": row["armnet_seconds"] / row["onnxruntime_seconds"]})
    return rows


PART = Part(
    "Cold start and memory",
    measure,
    {
        "network": word("network"),
        "threads": word("threads"),
        "armnet s": number("armnet_seconds"),
        "onnxruntime s": number("onnxruntime_seconds"),
        "ratio": number("ratio"),
        "armnet peak": nbytes("armnet_nbytes"),
        "onnxruntime peak": nbytes("onnxruntime_nbytes"),
    },
    remark="The time from the start of a process to its first output in a file, and its largest resident set, "
    "including mapped files.",
)
