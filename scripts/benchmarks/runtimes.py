"""Known networks, compared with every runtime that is installed, in one run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Callable, Dict, List, Sequence

import armnet
from armnet.console import note
from armnet.other_runtimes import OTHER_RUNTIMES, Original, OtherRuntime, difference, installed
from armnet.timing import take_turns
from device_tests.host.networks.known import build
from optimize import optimize
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import Array
from scripts.benchmarks.in_turns import NETWORKS, picture
from scripts.benchmarks.part import Options, Part, Row, number, word

BESIDE = tuple(name for name in OTHER_RUNTIMES if name != "reference")
FAR = 1e-3  # a runtime whose answer is further away computes something else, and is not timed


def measure(options: Options) -> List[Row]:
    """One thread: how the runtimes split work is another question."""
    names = installed(BESIDE, note)
    rows: List[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks or NETWORKS:
            note(f"timing {network}")
            model = Path(folder, f"{network}.onnx")
            model.write_bytes(build(network).SerializeToString())
            rows.append({"network": network, **beside_all(model, picture(), names, options.runs)})
    return rows


def beside_all(model: Path, x: Array, names: Sequence[str], runs: int) -> Row:
    """Processor seconds of armnet and of the runtimes that give the same answer, with the ratios; for the other
    runtimes, the reason why they are left out.
    """
    refused: Dict[str, str] = {}
    pair = armnet.export(str(model))
    original, feeds = Original(pair, model.parent, str(model)), {pair.inputs[0].name: x}
    with armnet.Predictor(optimize(pair), threads=1) as predictor:
        answer = list(predictor.run(feeds).values())
        candidates: Dict[str, Callable[[], object]] = {"armnet": lambda: predictor.run(feeds)}
        for name in names:
            try:
                candidates[name] = _agreeing(OTHER_RUNTIMES[name](original, feeds, 1), answer).infer
            except ArmnetError as error:
                refused[name] = str(error)[:160]
                note(refused[name])
        figures, warnings = take_turns(candidates, runs)
    seconds = {name: figure.cpu_seconds for name, figure in figures.items()}
    ratios = {f"{name}_ratio": seconds["armnet"] / taken for name, taken in seconds.items() if name != "armnet"}
    return {"threads": 1, "cpu_seconds": seconds, **ratios, "refused": refused, "warnings": warnings}


def _agreeing(other: OtherRuntime, answer: Sequence[Array]) -> OtherRuntime:
    """The runtime, if its answer is armnet's. ArmnetError if not."""
    apart = difference(answer, other.infer())
    if apart is None or apart > FAR:
        raise ArmnetError(
            f"{other.name} gives another answer: {'of other sizes' if apart is None else f'{apart:.0e} away'}"
        )
    return other


TITLES = {"onnxruntime": "onnxruntime", "tflite": "LiteRT", "mnn": "MNN", "ncnn": "ncnn", "opencv": "OpenCV"}
PART = Part(
    "Beside other runtimes",
    measure,
    {
        "network": word("network"),
        "armnet CPU ms": lambda row: f"{row['cpu_seconds']['armnet'] * 1e3:.2f}",
        **{f"/ {TITLES[name]}": number(f"{name}_ratio") for name in BESIDE},
    },
    remark="Float32, batch 1, 224x224, one thread, random weights; medians of processor time, all in turns in one "
    "process. A ratio is armnet's time divided by the other's. Answers were compared first: a runtime whose answer is "
    f"further than {FAR:g} of the largest magnitude away is left out.",
)
