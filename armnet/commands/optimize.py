"""Make a pair cheaper: fold, fuse and remove operators, save memory, and choose engines.

  armnet optimize PAIR -o PAIR2
  armnet optimize PAIR -o PAIR2 --explain           what was done, what was not and why, which engine runs what
  armnet optimize PAIR -o PAIR2 --engines measure   time the engines on this machine; the result is in tuning.json
  armnet optimize PAIR -o PAIR2 --engines measure --device opencl:0
  armnet optimize PAIR -o PAIR2 --accuracy 1e-5     rule out engines that round more than that
  armnet optimize PAIR -o PAIR2 --stop-after 12     do only 12 steps, to find the step that spoils a result

PAIR2 computes the same outputs, within --accuracy. Normally the device chooses the engines, since it knows its caches;
what is decided here, and written into the net, is which engines are accurate enough.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any, Dict, List

from armnet.arguments import add_json, add_pair, add_shapes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument("-o", "--output", required=True, metavar="PAIR2", help="the folder to write, or a .zip")
    parser.add_argument(
        "--engines",
        default="auto",
        metavar="auto|measure|LIST",
        help="auto: the device chooses; measure: time them on this machine, with sizes of blocks and panels, and "
        "processes against threads; a list such as WINOGRAD:f4x4_3x3,IM2COL: use these wherever an operator has them "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--accuracy",
        type=float,
        metavar="E",
        help="how far outputs may differ from those of the plain net, relative to their largest magnitude "
        "(default: 1e-4)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="measure for N cores (default: for one core and for all)"
    )
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help="also measure which operators opencl:0, cuda:0, ... does faster, copies included (default: the processor "
        "alone)",
    )
    add_shapes(parser, "examples of input shapes, where the pair leaves sizes open")
    parser.add_argument("--caffe2-compatible", action="store_true", help="use no operator that Caffe2 lacks")
    parser.add_argument(
        "--keep-biases",
        action="store_true",
        help="keep every blob as in the source: do not move biases to later operators",
    )
    parser.add_argument("--keep-order", action="store_true", help="do not move operators to save memory")
    parser.add_argument(
        "--merge-parallel",
        action="store_true",
        help="merge 1x1 convolutions that read the same blob, which is faster for single images",
    )
    parser.add_argument(
        "--paranoid",
        action="store_true",
        help="try the result on random inputs with free memory poisoned, and compare with a run without a memory plan",
    )
    parser.add_argument("--stop-after", type=int, metavar="N", help="stop after N steps")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print every step, every refused rewrite with its reason, and the engines of every operator",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, progress
    from armnet.model_files import check_pair_output
    from armnet.opening import pair_of
    from armnet.shapes import parse_shapes
    from optimize import Report, optimize

    check_pair_output(args.output)
    pair, report = pair_of(args.pair, plain=True), Report()
    with progress("optimize") as bar:
        result = optimize(
            pair,
            args.engines,
            accuracy=args.accuracy,
            threads=args.threads,
            device=args.device,
            caffe2_compatible=args.caffe2_compatible,
            keep_biases=args.keep_biases,
            keep_order=args.keep_order,
            merge_parallel=args.merge_parallel,
            stop_after=args.stop_after,
            paranoid=args.paranoid,
            shapes=parse_shapes(args.shape),
            report=report,
            progress=bar,
        )
    result.save(args.output)
    for warning in report.warnings:
        note(f"warning: {warning}")
    facts = _facts(args.output, pair, result, report)
    if args.json:
        rewrites = {"rewrites": [step._asdict() for step in report.steps]} if args.explain else {}
        print_json("optimize", {**facts, **rewrites})
        return 0
    if args.explain:
        print("\n".join(map(str, (*report.steps, *report.refused, *report.engines))), end="\n\n")
    _print_counts(facts)
    _print_engines(facts)
    return 0


def _facts(output: str, before: Any, after: Any, report: Any) -> Dict[str, Any]:
    from armnet.weights import weights_nbytes
    from optimize.rewriting.report import operator_counts

    return {
        "pair": output,
        "steps": len(report.steps),
        "passes": report.steps_by_pass(),
        "before": operator_counts(before.predict_net),
        "after": operator_counts(after.predict_net),
        "weights_nbytes": {"before": weights_nbytes(before), "after": weights_nbytes(after)},
        "refused": [one._asdict() for one in report.refused],
        "engines": [one._asdict() for one in report.engines],
        "error": report.error,
        "notes": report.notes,
        "warnings": report.warnings,
    }


def _print_counts(facts: Dict[str, Any]) -> None:
    from armnet.console import print_table
    from runtime_arm.app.display import size

    before, after = facts["before"], facts["after"]
    counts = [
        *((type, before.get(type, ""), after.get(type, "")) for type in {**before, **after}),
        ("all", sum(before.values()), sum(after.values())),
    ]
    rows: List[List[str]] = [list(map(str, row)) for row in counts]
    print_table(["operator", "before", "after"], rows, right=["before", "after"])
    weights = facts["weights_nbytes"]
    print(f"\n{facts['steps']} steps; weights: {size(weights['before'])} before, {size(weights['after'])} after")


def _print_engines(facts: Dict[str, Any]) -> None:
    engines = Counter(choice["engine"] for choice in facts["engines"] if choice["options"])
    if engines:
        print("engines: " + ", ".join(f"{count} {engine}" for engine, count in engines.most_common()))
    if facts["error"] is not None:
        print(f"measured: outputs differ by at most {facts['error']:.2g} of their largest magnitude")
    for line in facts["notes"]:
        print(line)
