"""The main job, end to end: two networks from an ONNX file to answers, compared with onnxruntime; one also on emulated
ARM.

``scripts/demo`` runs it.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from pathlib import Path

import numpy as np

import armnet
from armnet.__main__ import main as armnet_command
from armnet.timing import take_turns
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from device_tests.host.networks.known import build
from runtime_arm.app.display import table

ROOT = Path(__file__).resolve().parent.parent
DEMO = Path("demo")
RESULTS = Path("build") / "demo"
PREPROCESSING = '{"channels": "GRAY", "resize": [8, 8], "scale": 0.00392156862745098}'
LEAST_ACCURACY = 0.97


def command(*words: str) -> None:
    """Prints a command as a user would type it, and runs it."""
    print(f"\n$ armnet {shlex.join(words)}")
    status = armnet_command(list(words))
    if status:
        sys.exit(status)


def heading(text: str) -> None:
    print(f"\n=== {text}")


def digits(folder: Path) -> None:
    """Exports the digits network, inspects it, reads ten pictures with it, and measures it on the held-back ones."""
    heading("A small network that reads handwritten digits")
    pair = str(folder / "digits")
    command(
        "export",
        str(DEMO / "digits.onnx"),
        "-o",
        pair,
        "--labels",
        str(DEMO / "labels.txt"),
        "--preprocessing",
        PREPROCESSING,
    )
    command("inspect", pair)
    command("run", pair, str(DEMO / "pictures"), "--top", "1")

    held_back = np.load(DEMO / "held_back.npz")
    with armnet.load(pair) as predictor:
        probabilities = next(iter(predictor.run([held_back["images"]]).values()))
    accuracy = float(np.mean(probabilities.argmax(axis=1) == held_back["labels"]))
    print(f"\naccuracy on {len(held_back['labels'])} pictures that were not used for training: {accuracy:.2%}")
    if accuracy < LEAST_ACCURACY:
        sys.exit(f"demo: the accuracy should be {LEAST_ACCURACY:.0%} or better")
    command("compare", str(DEMO / "digits.onnx"), pair)


def packed(folder: Path) -> None:
    """Packs the digits network into one file and runs it on emulated ARM; the answers must be the same as here."""
    heading("The digits network in one file, on emulated ARM machines")
    bundle, answers = str(folder / "digits.pyz"), str(folder / "answers.npz")
    pictures = [str(picture) for picture in sorted((DEMO / "pictures").glob("*.png"))]
    command("pack", str(folder / "digits"), "-o", bundle)
    command("run", bundle, str(DEMO / "pictures"), "--top", "1", "--output", answers)
    here = np.load(answers)["probabilities"]
    for target in ("emulated:arm64", "emulated:armhf"):
        try:
            emulated(target.partition(":")[2])
        except EmulationUnavailable as error:
            print(f"\nskipped on {target}: {error}")
            continue
        command("device", "run", target, bundle, "--top", "1", "--output", answers, "--input", *pictures)
        there = np.load(answers)["probabilities"]
        if (there.argmax(axis=-1) != here.argmax(axis=-1)).any():
            sys.exit(f"demo: the answers on {target} differ from those of this machine")
        print(f"the same {len(here)} answers as here; probabilities differ by at most {np.abs(there - here).max():.1g}")


def squeezenet(folder: Path) -> None:
    """Exports, compares and times SqueezeNet 1.1 with random weights at 224x224, beside onnxruntime."""
    heading("SqueezeNet 1.1 at 224x224, random weights")
    model, pair = folder / "squeezenet.onnx", str(folder / "squeezenet")
    model.write_bytes(build("squeezenet1_1").SerializeToString())
    command("export", str(model), "-o", pair)
    command("compare", str(model), pair)
    beside_onnxruntime(str(model), pair)


def beside_onnxruntime(model: str, pair: str, rounds: int = 15) -> None:
    """Times both in turns on one core; prints medians."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    feed = {name: np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)}
    with armnet.Predictor(armnet.Pair.load(pair), threads=1) as predictor:
        candidates = {"armnet": lambda: predictor.run(feed), "onnxruntime": lambda: session.run(None, feed)}
        figures, _ = take_turns(candidates, rounds)
    rows = [[name, f"{figure.seconds * 1e3:.1f}"] for name, figure in figures.items()]
    print()
    print(table(["on one core", "ms"], rows, right=["ms"]))


def main() -> None:
    os.chdir(ROOT)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in a pipe, too, lines and messages stay in order
    RESULTS.mkdir(parents=True, exist_ok=True)
    digits(RESULTS)
    squeezenet(RESULTS)
    packed(RESULTS)
    print(f"\nThe pairs are in {RESULTS}.")


if __name__ == "__main__":
    main()
