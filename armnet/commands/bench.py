"""Measure how long an inference takes, also with other runtimes, and say how far the figures can be trusted.

  armnet bench squeezenet
  armnet bench squeezenet --against onnxruntime,tflite,reference --threads 1,2
  armnet bench squeezenet --against all --threads 1
  armnet bench squeezenet --device cuda:0                the device beside the processor alone
  armnet bench squeezenet_fast --against onnxruntime --model squeezenet.onnx --runs 50 --json

The runtimes take turns, so that noise affects all of them alike. The other runtimes run the model that the pair was
made from, if it lies beside the pair or --model names it. Otherwise they run the pair, written as ONNX or TFLite. MNN
and ncnn run what their own converters make of the ONNX file. "reference" is the reference evaluator of the package
onnx, and "all" means every other runtime that is installed. Answers are compared before anything is timed.

  ratio        armnet's time divided by the other's: below 1 armnet is faster
  CPU ms       processor time, including that of worker processes
  difference   the largest error of any output between armnet and the other, relative to its largest magnitude
"""

from __future__ import annotations

import argparse
from typing import Any, Dict, List

from armnet.arguments import add_device, add_inputs, add_json, add_pair
from runtime_arm.errors import UsageError

FAR = 1e-3  # a difference beyond this is explained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument(
        "--against",
        default="",
        metavar="LIST",
        help="runtimes to time: onnxruntime, tflite, mnn, ncnn, opencv, reference, or all (default: none)",
    )
    parser.add_argument(
        "--model", metavar="FILE", help="the .onnx or .tflite file for the others to run (default: the pair's source)"
    )
    parser.add_argument(
        "--threads", default="", metavar="LIST", help="numbers of cores, such as 1,2 (default: all fast cores)"
    )
    parser.add_argument(
        "--runs", type=int, default=21, metavar="N", help="inferences by each runtime (default: %(default)s)"
    )
    add_device(parser)
    add_inputs(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from contextlib import ExitStack
    from pathlib import Path

    from armnet.console import note, print_json, progress
    from armnet.opening import pair_of
    from armnet.other_runtimes import NOTE, Original
    from armnet.shapes import feeds_of, require_sizes, shapes_of, sizes_assumed
    from runtime_arm.execution.predictor import Predictor
    from runtime_arm.machine.cores import useful_cores

    if args.runs < 1:
        raise UsageError(f"--runs must be 1 or more, got {args.runs}")
    against, counts = _names(args.against), _counts(args.threads, useful_cores())
    pair = pair_of(args.pair)
    shapes = shapes_of(args.shape, pair)
    rows: List[Dict[str, Any]] = []
    warnings: List[str] = []
    for threads in counts:
        with ExitStack() as stack:
            predictor = stack.enter_context(Predictor(pair, threads=threads))
            beside = None
            if args.device or args.half:
                beside = Predictor(pair, threads=threads, device=args.device, half=args.half)
                stack.enter_context(beside)
            report = stack.enter_context(progress(f"{threads} threads"))
            original = Original(pair, Path(args.pair[0]), args.model)
            feeds = feeds_of(args.input, pair, shapes)
            with sizes_assumed(pair.inputs, feeds if args.input else shapes):
                require_sizes(pair.inputs, feeds if args.input else shapes)
                measured, heard = measure(predictor, original, feeds, against, args.runs, report, beside)
            heard += [] if beside is None else beside.notes
        rows += measured
        heard = [*predictor.notes, *heard]
        warnings += [warning for warning in heard if warning not in warnings]
    if "onnxruntime" in against:
        note(NOTE)
    for warning in warnings:
        note(f"warning: {warning}")
    if args.json:
        print_json("bench", {"runs": args.runs, "results": rows, "warnings": warnings})
    else:
        _print_text(rows)
    return 0


def measure(
    predictor: Any, original: Any, feeds: Any, against: List[str], runs: int, report: Any, beside: Any = None
) -> Any:
    """The rows for one number of threads, armnet's first, and warnings. beside: a Predictor with a device."""
    from armnet.other_runtimes import OTHER_RUNTIMES, difference
    from armnet.timing import take_turns
    from runtime_arm.version import VERSION

    answer = list(predictor.run(feeds).values())
    others = [OTHER_RUNTIMES[name](original, feeds, predictor.threads) for name in against]
    apart = {other.name: difference(answer, other.infer()) for other in others}
    ours = f"armnet {VERSION}"
    candidates = {ours: lambda: predictor.run(feeds), **{other.name: other.infer for other in others}}
    if beside is not None:
        candidates[name_with_device(ours, beside)] = lambda: beside.run(feeds)
    figures, warnings = take_turns(candidates, runs, lambda done, total: report("timing", done, total))
    rows: List[Dict[str, Any]] = [{"runtime": ours, "threads": predictor.threads, **figures[ours].as_dict()}]
    if beside is not None:
        rows.append(_device_row(name_with_device(ours, beside), figures, ours, predictor, beside, feeds, answer))
        warnings += beside.placement.session.device.caveats()
    for other in others:
        figure, far = figures[other.name], apart[other.name]
        rows.append(
            {
                "runtime": other.name,
                "threads": predictor.threads,
                **figure.as_dict(),
                "runs_model": other.runs,
                "ratio": figures[ours].seconds / figure.seconds,
                "difference": far,
            }
        )
        if far is not None and far > FAR:
            warnings.append(_explained(other, far, answer))
    return rows, warnings


def name_with_device(ours: str, beside: Any) -> str:
    """What runs, and on which device."""
    session = beside.placement.session
    return f"{ours} on {session.device.spec}, {session.device.name}{', half' if session.half else ''}"


def _device_row(
    name: str, figures: Any, ours: str, predictor: Any, beside: Any, feeds: Any, answer: Any
) -> Dict[str, Any]:
    from armnet.other_runtimes import difference

    return {
        "runtime": name,
        "threads": predictor.threads,
        **figures[name].as_dict(),
        "ratio": figures[ours].seconds / figures[name].seconds,
        "difference": difference(answer, list(beside.run(feeds).values())),
        "islands": len(beside.placement.islands),
    }


def _explained(other: Any, apart: float, answer: Any) -> str:
    """Why the outputs of another runtime differ so much from armnet's, as far as that can be measured."""
    from armnet.other_runtimes import difference

    told = f"the outputs of {other.name} differ from armnet's by {apart:.2g} of the largest magnitude"
    exact = None if other.exact is None else difference(answer, other.exact())
    if exact is not None and exact <= FAR:
        return (
            f"{told}: its fast kernels round differently; from its own reference kernels armnet differs by {exact:.0e}"
        )
    return f"{told}: armnet compare MODEL PAIR finds the operator"


def _names(text: str) -> List[str]:
    """The runtimes of --against; UsageError if there is none of that name."""
    from armnet.console import note
    from armnet.other_runtimes import OTHER_RUNTIMES, installed

    if text.strip() == "all":
        return installed([name for name in OTHER_RUNTIMES if name != "reference"], note)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in OTHER_RUNTIMES:
            raise UsageError(f"--against takes {', '.join(OTHER_RUNTIMES)} or all; got {name!r}")
    return names


def _counts(text: str, cores: int) -> List[int]:
    words = text.split(",") if text else [str(cores)]
    if not all(word.strip().isdecimal() and int(word) > 0 for word in words):
        raise UsageError(f"--threads takes numbers of cores, such as 1,2; got {text!r}")
    return [int(word) for word in words]


def _print_text(rows: List[Dict[str, Any]]) -> None:
    from armnet.console import print_table, without_empty_columns

    columns = ["runtime", "threads", "median ms", "quartiles", "CPU ms", "runs", "ratio", "difference"]
    print_table(*without_empty_columns(columns, [_cells(row) for row in rows]), right=columns[1:])


def _cells(row: Dict[str, Any]) -> List[Any]:
    quartiles = f"{row['low'] * 1e3:.2f}..{row['high'] * 1e3:.2f}"
    ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
    apart = row.get("difference")
    return [
        row["runtime"],
        row["threads"],
        f"{row['seconds'] * 1e3:.2f}",
        quartiles,
        f"{row['cpu_seconds'] * 1e3:.2f}",
        row["runs"],
        ratio,
        "" if apart is None else f"{apart:.1e}",
    ]
