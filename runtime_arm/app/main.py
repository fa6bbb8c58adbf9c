"""The program of a bundle and of ``python -m runtime_arm PAIR``: runs, tests, times or describes the network."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.app.answer import Options
from runtime_arm.app.answering import Record, answer_all
from runtime_arm.app.command_line import Parser, guarded
from runtime_arm.app.display import size
from runtime_arm.app.model import Model
from runtime_arm.app.outputs import plain
from runtime_arm.app.sources import count_of
from runtime_arm.errors import UsageError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.machine import blas
from runtime_arm.pair.archive import is_bundle
from runtime_arm.pair.bundle import Bundle, open_bundle
from runtime_arm.pair.pair import Pair
from runtime_arm.version import VERSION

_TEACHING = "runtime_arm.app.teaching"  # by name: only bundles that can be taught have it
MODULE = "runtime_arm"  # the program's name where no bundle gives it one

_HELP = """\
Run the network on pictures, sounds or arrays.

  {call} photo.jpg                 print what the network finds in a picture
  {call} a.npy --output out.npz    read an array, write the outputs
  {call} --self-test               check that this machine computes what the packing machine did
  {call} --bench 50                time 50 inferences
"""
_TEACH_HELP = """\
  {call} --teach FOLDER            learn the classes of a folder
"""


def main(path: str, words: Sequence[str], program: str) -> int:
    """Runs the bundle or pair at ``path`` with the command line ``words``.

    Returns the exit status: 0, 1 if the self-test failed or an input was skipped, 2 for a user's mistake. program: the
    prefix of error messages.
    """
    if "--teach" in words:
        return guarded(program, lambda: _teach(path, words, program))
    return guarded(program, lambda: _run(path, _parser(program).parse_args(words)))


def _teach(path: str, words: Sequence[str], program: str) -> int:
    if find_spec(_TEACHING) is None:
        raise UsageError("this bundle cannot be taught: it was packed without --teachable")
    return int(import_module(f"{_TEACHING}.command").run(path, words, program))


def _parser(program: str) -> argparse.ArgumentParser:
    call = f"python3 -m {MODULE} PAIR" if program == MODULE else f"python3 {program}"
    text = _HELP if find_spec(_TEACHING) is None else _HELP + _TEACH_HELP
    parser = Parser(prog=call, description=text.format(call=call))
    parser.add_argument("input", nargs="*", metavar="FILE", help="a picture, sound, .npy, .npz, folder, or NAME=FILE")
    parser.add_argument("--output", metavar="FILE", help="write results to a .jsonl or .csv, or the outputs to an .npz")
    parser.add_argument("--draw", metavar="DIR", help="write each picture with its result drawn over it to this folder")
    parser.add_argument("--task", metavar="TASK", help="what the outputs mean (default: as the network says)")
    parser.add_argument("--score", type=float, metavar="S", help="the least score that counts")
    parser.add_argument("--preprocessing", metavar="RULE", help="a preset, JSON or a file (default: the packed rule)")
    parser.add_argument("--labels", metavar="FILE", help="a file with one label per line (default: the packed labels)")
    parser.add_argument("--top", type=int, metavar="K", help="of a classifier, print the K best classes (default: 5)")
    parser.add_argument("--threads", type=int, metavar="N", help="cores to use (default: all fast cores)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--self-test", action="store_true", help="run the packed sample and compare its outputs with the packed ones"
    )
    what.add_argument(
        "--bench", type=int, nargs="?", const=20, metavar="RUNS", help="time RUNS inferences (default: %(const)s)"
    )
    what.add_argument("--info", action="store_true", help="describe the network and the machine")
    return parser


def _run(path: str, args: argparse.Namespace) -> int:
    if not path:
        raise UsageError(f"give a pair or a bundle first; python3 -m {MODULE} --help tells more")
    needs_sample = args.self_test or args.bench is not None
    bundle = open_bundle(path) if needs_sample and is_bundle(path) else None
    pair = bundle.pair if bundle else Pair.load(path)
    if args.info:
        return _show(args, _info(pair), lambda facts: "\n".join(f"{key:<10} {value}" for key, value in facts.items()))
    if needs_sample:
        with Predictor(pair, threads=args.threads) as predictor:
            if args.self_test:
                return self_test(predictor, bundle, args)
            return _show(args, _bench(predictor, bundle, args.bench), _bench_text)
    return _answer(pair, args)


def _answer(pair: Pair, args: argparse.Namespace) -> int:
    if not args.input:
        raise UsageError("give a picture, a sound, an .npy or an .npz file; --help tells more")
    if args.top is not None and args.top < 0:
        raise UsageError(f"--top must be 0 or more, got {args.top}")
    with Model(
        pair, args.labels, args.task, args.preprocessing, threads=args.threads, shapes=None, notice=_note
    ) as model:
        if args.top and model.decoder.kind == "tensors" and args.task is None:
            with suppress(UsageError):  # outputs that are no scores of classes stay tensors
                model.as_task("classes", scores="logits")
        shown: List[Dict[str, Any]] = []

        def show(record: Record) -> None:
            if model.fed and not shown:
                _note(model.fed)
            shown.append(record.to_dict() if args.json else {})
            if not args.json:
                print("\n".join(record.lines()), flush=True)

        options = Options(args.score, 5 if args.top is None else args.top)
        alone = count_of(args.input, "sound" in model.entry) == 1
        tally = answer_all(
            model, model.inputs(*args.input), options, show, output=args.output, draw=args.draw, alone=alone
        )
    for line in tally.skipped:
        _note(f"skipped: {line}")
    if args.json:
        print(json.dumps({"schema": 1, "runs": shown, "skipped": tally.dropped}, indent=2))
    return 1 if tally.dropped or tally.bad else 0


def _note(text: str) -> None:
    print(text, file=sys.stderr)


def self_test(predictor: Predictor, bundle: Optional[Bundle], args: argparse.Namespace) -> int:
    """Runs the packed sample; 0 if every output is within the tolerance of the packing machine's output, else 1."""
    if bundle is None:
        raise UsageError("--self-test needs a bundle, which holds a sample; armnet pack makes one")
    outputs = predictor.run(bundle.sample_inputs)
    errors = {name: _error(plain(outputs[name]), wanted) for name, wanted in bundle.sample_outputs.items()}
    tolerance = bundle.tolerance
    passed = all(error <= tolerance for error in errors.values())

    def report(facts: Dict[str, Any]) -> str:
        lines = [
            f"{name}: error {error:.2e} of the largest magnitude, {tolerance:g} is allowed"
            for name, error in errors.items()
        ]
        return "\n".join([*lines, "self-test passed" if passed else "self-test FAILED"])

    _show(args, {"passed": passed, "tolerance": tolerance, "errors": errors}, report)
    return 0 if passed else 1


def _error(ours: Any, wanted: Any) -> float:
    if ours.shape != wanted.shape or ours.dtype != wanted.dtype:
        return float("inf")
    a, b = ours.astype(np.float64), wanted.astype(np.float64)
    error = float(np.abs(a - b).max(initial=0.0) / (np.abs(b).max(initial=0.0) or 1.0))
    return error if error == error else float("inf")


def _bench(predictor: Predictor, bundle: Optional[Bundle], runs: int) -> Dict[str, Any]:
    if runs < 1:
        raise UsageError(f"--bench must be 1 or more, got {runs}")
    feeds = bundle.sample_inputs if bundle else {info.name: info.example() for info in predictor.inputs}
    predictor.run(feeds)
    times: List[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        predictor.run(feeds)
        times.append(time.perf_counter() - start)
    return {
        "runs": runs,
        "threads": predictor.threads,
        "median_ms": float(np.median(times)) * 1e3,
        "fastest_ms": min(times) * 1e3,
    }


def _bench_text(facts: Dict[str, Any]) -> str:
    cores = f"{facts['threads']} core" + ("s" if facts["threads"] > 1 else "")
    spread = f"median of {facts['runs']} runs, fastest {facts['fastest_ms']:.2f} ms, {cores}"
    return f"{facts['median_ms']:.2f} ms per inference ({spread})"


def _info(pair: Pair) -> Dict[str, Any]:
    weights = sum(
        array.nbytes
        for op in pair.init_net.op
        for arg in op.arg
        for array in (arg.t, arg.floats, arg.ints)
        if array is not None
    )
    library = blas.loaded()
    return {
        "inputs": ", ".join(f"{i.name} {i.dtype or '?'} {i.shape_text()}" for i in pair.inputs),
        "outputs": ", ".join(f"{o.name} {o.dtype or '?'} {o.shape_text()}" for o in pair.outputs),
        "operators": len(pair.predict_net.op),
        "weights": size(weights),
        "labels": len(pair.meta.get("labels") or ()),
        "source": (pair.meta.get("source") or {}).get("name", "?"),
        "armnet": VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": library.config if library else "not OpenBLAS",
        "machine": platform.machine(),
    }


def _show(args: argparse.Namespace, facts: Dict[str, Any], as_text: Callable[[Dict[str, Any]], str]) -> int:
    print(json.dumps({"schema": 1, **facts}, indent=2) if args.json else as_text(facts))
    return 0
