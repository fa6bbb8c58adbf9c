"""Compare two variants of a model on data: their accuracy, where their numbers differ, and what they cost.

  armnet diff squeezenet squeezenet_int8 photos/            folders of pictures, .npz, .npy, or what evaluate takes
  armnet diff squeezenet.onnx squeezenet.tflite photos/     each prepares the pictures in its own way
  armnet diff digits digits_int8 held_back.npz --html diff.html      a page with plots
  armnet diff digits digits_int8 held_back.npz --count cortex-a72    instructions on an emulated CPU, too

If the data has known answers, the accuracy of both is measured. The signal-to-noise ratio (dB) of a blob says how far
B's numbers are from A's: 20 dB is a tenth of their size, 40 dB a hundredth. Only blobs that both nets have are listed.
armnet compare finds an operator that is wrong; armnet diff shows what a change of format or precision costs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple

from armnet.arguments import MODELS, add_json, add_threads
from armnet.samples import FILES
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from armnet.variants.examples import Examples
    from armnet.variants.noise import Noise
    from runtime_arm.app.model import Model

LISTED = 20  # blobs in the printed table: those with the most noise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help=f"the first variant: {MODELS}, a bundle, or a pair")
    parser.add_argument("b", metavar="B", help="the second variant")
    parser.add_argument("data", metavar="DATA", help=f"{FILES}; or examples whose answers are known, as evaluate takes")
    parser.add_argument(
        "--samples", type=int, default=32, metavar="N", help="compare blobs on at most N (default: %(default)s)"
    )
    parser.add_argument(
        "--runs", type=int, default=11, metavar="N", help="inferences to time each with (default: %(default)s)"
    )
    parser.add_argument("--count", metavar="CPU", help="count instructions on an emulated CPU, such as cortex-a72")
    parser.add_argument("--html", metavar="FILE", help="write a page with plots of noise and costs")
    add_threads(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, progress
    from armnet.opening import open as open_model
    from armnet.variants.examples import examples_of

    if args.runs < 1:
        raise UsageError(f"--runs must be 1 or more, got {args.runs}")

    def told(text: str) -> None:
        note(f"armnet: {text}")

    with (
        open_model(args.a, threads=args.threads, notice=told) as a,
        open_model(args.b, threads=args.threads, notice=told) as b,
    ):
        examples = [examples_of(args.data, model, args.samples, told) for model in (a, b)]
        with progress("diff") as report:
            facts = _facts(args, (a, b), examples, report)
    for warning in facts["warnings"]:
        note(f"warning: {warning}")
    if args.html:
        _write_page(args, facts)
        note(f"wrote {args.html}")
    if args.json:
        print_json("diff", facts)
    elif not args.html:
        _print(facts)
    return 0


def _facts(args: argparse.Namespace, models: Tuple[Model, Model], examples: List[Examples], report: Any) -> Any:
    from armnet.variants.costs import NAMES, costs_of, instructions_of, times_of
    from armnet.variants.examples import feeds_of
    from armnet.variants.noise import noise_between

    count = len(examples[0].values)
    noise = noise_between(
        models[0].predictor, models[1].predictor, _fed(models, examples), lambda done: report("blobs", done, count)
    )
    feeds = [feeds_of(model, one.values[0]) for model, one in zip(models, examples)]
    sides = [costs_of(path, model, fed) for path, model, fed in zip((args.a, args.b), models, feeds)]
    times, warnings = times_of(models, feeds, args.runs, lambda done, total: report("timing", done, total))
    for side, timed in zip(sides, times):
        side.update(timed)
    if args.count:
        for number, path in enumerate((args.a, args.b)):
            report(f"counting on {args.count}", number, 2)
            sides[number].update(instructions_of(path, args.count))
    metrics, agreement = _accuracy(models, examples, report)
    return {
        "a": args.a,
        "b": args.b,
        "data": args.data,
        "samples": noise.samples,
        "costs": dict(zip(NAMES, sides)),
        "metrics": metrics and dict(zip(NAMES, metrics)),
        "agreement": agreement,
        "output_snr": noise.output,
        "blobs": [blob._asdict() for blob in noise.blobs],
        "warnings": warnings + _unmeasured(noise, examples),
    }


def _fed(models: Sequence[Model], examples: Sequence[Examples]) -> Iterator[Tuple[Any, Any]]:
    from armnet.variants.examples import feeds_of

    for first, second in zip(examples[0].values, examples[1].values):
        yield feeds_of(models[0], first), feeds_of(models[1], second)


def _accuracy(
    models: Sequence[Model], examples: Sequence[Examples], report: Any
) -> Tuple[Optional[List[Dict[str, float]]], Optional[float]]:
    """The metrics of both, and the share of examples with equal answers, if the true answers are known."""
    from armnet.evaluation.evaluate import evaluate
    from armnet.evaluation.findings import differ

    if any(one.data is None for one in examples):
        return None, None
    results = [
        evaluate(model, one.data, fresh=True, progress=report).results[0]  # type: ignore[arg-type]
        for model, one in zip(models, examples)
    ]
    both = set(results[0].findings) & set(results[1].findings)
    apart = sum(differ(results[0].findings[number], results[1].findings[number]) for number in both)
    return [result.metrics for result in results], 1 - apart / len(both) if both else None


def _unmeasured(noise: Noise, examples: Sequence[Examples]) -> List[str]:
    """Why a figure that a user expects is missing."""
    told = [f"no accuracy: {one.untrue}" for one in examples if one.data is None][:1]
    if not noise.blobs:
        told.append("the two nets have no blob in common, by name: they may be made from different models")
    elif noise.output is None:
        told.append("the outputs of the two are not comparable: their names or shapes differ")
    return told


def _write_page(args: argparse.Namespace, facts: Dict[str, Any]) -> None:
    from armnet.variants.page import render
    from runtime_arm.files import write_file

    write_file(args.html, [render(facts).encode("utf-8", "replace")])


def _print(facts: Dict[str, Any]) -> None:
    from armnet.console import print_table
    from armnet.variants.rows import cost_rows

    print_table(["", "A", "B", "B / A"], cost_rows(facts), right=["A", "B", "B / A"])
    blobs = sorted(facts["blobs"], key=lambda blob: blob["snr"])[:LISTED]
    if blobs:
        more = len(facts["blobs"]) - len(blobs)
        print(f"\nblobs with the most noise, {facts['samples']} samples{f'; {more} more have less' if more else ''}")
        rows = [[blob["blob"], blob["operator"], f"{blob['snr']:.1f}"] for blob in blobs]
        print_table(["blob", "computed in B by", "dB"], rows, right=["dB"])
