"""Make a pair cheaper: fold, fuse, share, remove.

  armnet optimize PAIR -o PAIR2
  armnet optimize PAIR -o PAIR2 --explain           what was done, and why the rest was not
  armnet optimize PAIR -o PAIR2 --stop-after 12     only so many rewrites, to find the one that spoils a result
"""

from __future__ import annotations

import argparse
from typing import Any, Dict, List


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="PAIR", help="folder of a pair")
    parser.add_argument("-o", "--output", required=True, metavar="PAIR2", help="folder to write")
    parser.add_argument("--engines", default="auto", metavar="LIST",
                        help="engines to prefer, e.g. POINTWISE,IM2COL; auto leaves the choice to the runtime")
    parser.add_argument("--shape", nargs="+", default=[], metavar="NAME=N,N,...",
                        help="examples of input shapes that the pair leaves open")
    parser.add_argument("--caffe2-compatible", action="store_true", help="use nothing that Caffe2 lacks")
    parser.add_argument("--stop-after", type=int, metavar="N", help="stop after N rewrites")
    parser.add_argument("--explain", action="store_true", help="print every rewrite, and every refusal with its reason")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    from armnet.commands.export import weights_nbytes
    from armnet.commands.inspect import parse_shapes
    from armnet.console import note, print_json
    from optimize import Report, optimize
    from optimize.report import operator_counts
    from runtime_arm.pair import Pair

    pair, report = Pair.load(args.pair), Report()
    result = optimize(pair, args.engines, caffe2_compatible=args.caffe2_compatible, stop_after=args.stop_after,
                      shapes=parse_shapes(args.shape), report=report)
    result.save(args.output)
    facts = {"pair": args.output, "steps": len(report.steps), "passes": report.steps_by_pass(),
             "before": operator_counts(pair.predict_net), "after": operator_counts(result.predict_net),
             "weights_nbytes": {"before": weights_nbytes(pair), "after": weights_nbytes(result)},
             "refused": [one._asdict() for one in report.refused], "warnings": report.warnings}
    for warning in report.warnings:
        note(f"warning: {warning}")
    if args.json:
        print_json("optimize", facts)
        return 0
    if args.explain:
        for line in (*report.steps, *report.refused):
            print(line)
        print()
    _print_counts(facts)
    return 0


def _print_counts(facts: Dict[str, Any]) -> None:
    from runtime_arm.display import size, table

    before, after = facts["before"], facts["after"]
    counts = [*((type, before.get(type, ""), after.get(type, "")) for type in {**before, **after}),
              ("all", sum(before.values()), sum(after.values()))]
    rows: List[List[str]] = [list(map(str, row)) for row in counts]
    print(table(["operator", "before", "after"], rows, right=["before", "after"]))
    weights = facts["weights_nbytes"]
    print(f"\n{facts['steps']} rewrites; weights {size(weights['before'])} before, {size(weights['after'])} after")
