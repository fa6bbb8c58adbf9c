"""Measures armnet beside onnxruntime on this machine. Run it by ``scripts/bench``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import numpy as np

import armnet
from device_tests.host import processes
from device_tests.host.networks import build
from optimize import optimize
from runtime_arm.display import size, table
from scripts import bench_memory
from scripts.demo import interleaved

NETWORKS = ("vgg16_conv", "resnet18", "resnet50", "squeezenet1_1", "mobilenet_v2", "densenet121", "googlenet")
COLD_START = """\
import sys, numpy as np, onnxruntime as ort
o = ort.SessionOptions()
o.intra_op_num_threads = {threads}
s = ort.InferenceSession({model!r}, o, providers=["CPUExecutionProvider"])
np.savez({output!r}, *s.run(None, {{s.get_inputs()[0].name: np.load({input!r})}}))
"""


def cold_start(folder: Path, threads: int, rounds: int) -> List[Dict[str, Any]]:
    """Process start to first output on SqueezeNet 1.1: ``armnet run`` and an equal script with onnxruntime."""
    model, pair, given, output = (str(folder / name) for name in ("squeezenet.onnx", "squeezenet", "in.npy", "out.npz"))
    Path(model).write_bytes(build("squeezenet1_1").SerializeToString())
    armnet.export(model).save(pair)
    np.save(given, np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32))
    script = COLD_START.format(threads=threads, model=model, output=output, input=given)
    costs = processes.interleaved(
        {
            "armnet": [
                sys.executable,
                "-m",
                "armnet",
                "run",
                pair,
                "--input",
                given,
                "--output",
                output,
                "--threads",
                str(threads),
            ],
            "onnxruntime": [sys.executable, "-c", script],
        },
        rounds,
    )
    return [
        {"who": who, "threads": threads, "seconds": cost.seconds, "peak_nbytes": cost.peak_nbytes}
        for who, cost in costs.items()
    ]


def inference(name: str, folder: Path, threads: int, rounds: int) -> Dict[str, Any]:
    """Both on one network at 224x224, batch 1, interleaved in one process; ours exported and optimised."""
    import onnxruntime

    model = folder / f"{name}.onnx"
    model.write_bytes(build(name).SerializeToString())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)}
    with armnet.Predictor(optimize(armnet.export(str(model))), threads=threads) as predictor:
        candidates: List[Callable[[], object]] = [lambda: predictor.run(feed), lambda: session.run(None, feed)]
        ours, theirs = interleaved(candidates, rounds)
    return {
        "network": name,
        "threads": threads,
        "armnet_ms": ours * 1e3,
        "onnxruntime_ms": theirs * 1e3,
        "ratio": ours / theirs,
    }


def machine() -> Dict[str, Any]:
    """What the figures were measured on."""
    import onnxruntime

    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "onnxruntime": onnxruntime.__version__,
        "armnet": armnet.__version__,
    }


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), help="default: %(default)s")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", metavar="FILE", help="write the figures here")
    args = parser.parse_args(words)
    figures: Dict[str, Any] = {"machine": machine(), "cold_start": [], "inference": []}
    print(", ".join(f"{key} {value}" for key, value in figures["machine"].items()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for threads in args.threads:
            figures["cold_start"] += cold_start(folder, threads, args.rounds)
        print("\ncold start, SqueezeNet 1.1, process start to first output written")
        print(
            table(
                ["", "threads", "seconds", "peak memory"],
                [
                    [row["who"], row["threads"], f"{row['seconds']:.3f}", size(row["peak_nbytes"])]
                    for row in figures["cold_start"]
                ],
                right=["threads", "seconds", "peak memory"],
            )
        )
        figures["memory"] = bench_memory.peak_memory(folder, min(args.rounds, 3))
        print("\nwhole processes that run a network once, random weights, 224x224, batch 1")
        bench_memory.print_text(figures["memory"])
        for network in args.networks:
            figures["inference"] += [inference(network, folder, threads, args.rounds) for threads in args.threads]
        print("\ninference, 224x224, batch 1, float32, medians of interleaved runs, onnxruntime without spinning")
        print(
            table(
                ["network", "threads", "armnet ms", "onnxruntime ms", "ratio"],
                [
                    [
                        row["network"],
                        row["threads"],
                        f"{row['armnet_ms']:.1f}",
                        f"{row['onnxruntime_ms']:.1f}",
                        f"{row['ratio']:.2f}",
                    ]
                    for row in figures["inference"]
                ],
                right=["threads", "armnet ms", "onnxruntime ms", "ratio"],
            )
        )
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1) + "\n")
    ratios = [row["ratio"] for row in figures["inference"]]
    if ratios:
        print(f"\ngeometric mean of the ratios: {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
