"""List a pair's operators with engines, shapes, parameters, multiply-adds and bytes.

Dimensions that the pair leaves open are taken as 1, or as --shape says:

  armnet inspect PAIR --shape data=1,3,320,320
"""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, Optional, Sequence

from runtime_arm.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", metavar="PAIR", help="folder of a pair")
    parser.add_argument("--shape", nargs="+", default=[], metavar="NAME=N,N,...", help="shapes of inputs")
    parser.add_argument(
        "--net", action="store_true", help="print the net in text form, one line an operator, and nothing else"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    from armnet.console import print_json
    from runtime_arm.predictor import load

    with load(args.pair, threads=1) as predictor:
        if args.net:
            print(predictor.pair.predict_net.to_text())
            return 0
        segment = predictor.plan(parse_shapes(args.shape))
        rows = operator_rows(predictor.pair.predict_net, segment)
        facts = {
            "inputs": [f"{i.name} {i.shape_text()}" for i in predictor.inputs],
            "outputs": [f"{i.name} {i.shape_text()}" for i in predictor.outputs],
            "operators": rows,
            "multiply_adds": sum(row["multiply_adds"] for row in rows),
            "parameters": sum(row["parameters"] for row in rows),
            "arena_nbytes": segment.arena_nbytes,
            "liveness_peak_nbytes": segment.liveness_peak_nbytes,
        }
    if args.json:
        print_json("inspect", facts)
    else:
        _print_text(facts)
    return 0


def parse_shapes(words: Sequence[str]) -> Dict[str, List[int]]:
    """``["data=1,3,224,224"]`` by name. UsageError if a word is not of that form."""
    shapes = {}
    for word in words:
        name, _, numbers = word.partition("=")
        try:
            shapes[name] = [int(n) for n in numbers.replace("x", ",").split(",")]
        except ValueError as error:
            raise UsageError(f"--shape takes NAME=N,N,..., got {word!r}") from error
    return shapes


def operator_rows(net: Any, segment: Any) -> List[Dict[str, Any]]:
    """One row an operator that runs; behind a border (a shape that depends on data) shapes are not known."""
    from runtime_arm.cost import cost_of

    rows = []
    for step in segment.steps:
        cost = cost_of(step.op, step.in_specs, step.out_specs)
        rows.append(
            {
                "index": step.index,
                "type": step.op.full_type,
                "engine": "view" if step.schema.view else step.engine,
                "inputs": list(step.op.input),
                "output": step.op.output[0],
                "shape": list(step.out_specs[0].shape),
                "dtype": step.out_specs[0].dtype.name,
                **cost._asdict(),
                "refused": step.refusals,
            }
        )
    if segment.border_at is not None:
        for index, op in enumerate(net.op[segment.border_at :], segment.border_at):
            rows.append(_unknown_row(index, op))
    return rows


def _unknown_row(index: int, op: Any) -> Dict[str, Any]:
    shape: Optional[List[int]] = None
    return {
        "index": index,
        "type": op.full_type,
        "engine": "?",
        "inputs": list(op.input),
        "output": op.output[0] if op.output else "",
        "shape": shape,
        "dtype": "?",
        "multiply_adds": 0,
        "parameters": 0,
        "nbytes": 0,
        "refused": {},
    }


def _print_text(facts: Dict[str, Any]) -> None:
    from runtime_arm.display import count, shape_text, size, table

    print(f"inputs   {', '.join(facts['inputs'])}")
    print(f"outputs  {', '.join(facts['outputs'])}")
    print()
    print(
        table(
            ["#", "operator", "engine", "output", "shape", "parameters", "multiply-adds", "bytes"],
            [
                [
                    row["index"],
                    row["type"],
                    row["engine"],
                    row["output"],
                    shape_text(row["shape"]),
                    count(row["parameters"]),
                    count(row["multiply_adds"]),
                    size(row["nbytes"]),
                ]
                for row in facts["operators"]
            ],
            right=["#", "parameters", "multiply-adds", "bytes"],
        )
    )
    print()
    print(
        f"{len(facts['operators'])} operators, {count(facts['parameters'])} parameters, "
        f"{count(facts['multiply_adds'])} multiply-adds, arena {size(facts['arena_nbytes'])} "
        f"(at least {size(facts['liveness_peak_nbytes'])} in this order)"
    )
