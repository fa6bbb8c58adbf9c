"""List a pair's operators with their engines, shapes, parameters, multiply-adds and bytes, and its memory over time.

  armnet inspect PAIR
  armnet inspect PAIR --html report.html          a page with pictures, in one file
  armnet inspect PAIR --html report.html --profile times.json     with times: armnet profile PAIR --json > times.json
  armnet inspect PAIR --shape data=1,3,320,320
  armnet inspect PAIR --net                       the net as text

"live" is the part of the arena that is in use while an operator runs.
"""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, Sequence

from armnet.arguments import add_json, add_pair, add_shapes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    add_shapes(parser, "shapes of inputs, where the pair leaves sizes open (default: 1 for each open size)")
    parser.add_argument("--net", action="store_true", help="print only the net in text form, one line per operator")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with the graph, the operators, the engines and the arena over time"
    )
    parser.add_argument(
        "--profile", metavar="FILE", help="what armnet profile --json wrote: the time of each operator, too"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from armnet.opening import name_of, pair_of
    from armnet.page.timeline import as_json, timeline
    from armnet.shapes import assumptions, shapes_of, sizes_assumed
    from armnet.weights import weights_nbytes
    from runtime_arm.execution.predictor import Predictor

    with Predictor(pair_of(args.pair), threads=1) as predictor:
        pair = predictor.pair
        if args.net:
            print(pair.predict_net.to_text())
            return 0
        shapes = shapes_of(args.shape, pair)
        with sizes_assumed(pair.inputs, shapes):
            segment = predictor.plan(shapes)
        for line in [*assumptions(pair.inputs, shapes), *predictor.notes]:
            note(line)
        rows, memory = operator_rows(pair.predict_net, segment), timeline(segment)
    if args.profile:
        add_times(rows, args.profile)
    facts = {
        "inputs": [f"{i.name} {i.shape_text()}" for i in pair.inputs],
        "outputs": [f"{i.name} {i.shape_text()}" for i in pair.outputs],
        "operators": rows,
        "multiply_adds": sum(row["multiply_adds"] for row in rows),
        "parameters": sum(row["parameters"] for row in rows),
        "weights_nbytes": weights_nbytes(pair),
        "arena_nbytes": segment.arena_nbytes,
        "liveness_peak_nbytes": segment.liveness_peak_nbytes,
        "memory": as_json(memory),
    }
    if args.html:
        _write_page(args.html, name_of(args.pair), pair, facts, memory)
        note(f"wrote {args.html}")
    if args.json:
        print_json("inspect", facts)
    elif not args.html:
        _print_text(facts, memory)
    return 0


def _write_page(path: str, name: str, pair: Any, facts: Dict[str, Any], memory: Any) -> None:
    from armnet.page.report import render
    from runtime_arm.files import write_file

    page = render(name, pair, facts, memory)
    write_file(path, [page.encode("utf-8", "replace")])


def operator_rows(net: Any, segment: Any) -> List[Dict[str, Any]]:
    """One row per step; ``index`` is None for a step that the plan inserts.

    Shapes are unknown after a border, which is an operator whose output shape depends on data.
    """
    from runtime_arm.planning.cost import cost_of

    rows = []
    for step in segment.steps:
        cost = cost_of(step.op, step.in_specs, step.out_specs)
        made = next(iter(step.out_specs), None)
        rows.append(
            {
                "index": step.index if step.index >= 0 else None,
                "type": step.op.full_type,
                "engine": "view" if step.schema.view or step in segment.layout.elided else step.engine,
                "inputs": list(step.op.input),
                "reads": list(step.op.reads()),
                "output": (*step.op.output, "")[0],
                "outputs": list(step.op.output),
                "shape": None if made is None else list(made.shape),
                "dtype": "?" if made is None else made.dtype.name,
                **cost._asdict(),
                "refused": step.refusals,
            }
        )
    if segment.border_at is not None:
        for index, op in enumerate(net.op[segment.border_at :], segment.border_at):
            rows.append(_unknown_row(index, op))
    return rows


def _unknown_row(index: int, op: Any) -> Dict[str, Any]:
    return {
        "index": index,
        "type": op.full_type,
        "engine": "?",
        "inputs": list(op.input),
        "reads": list(op.reads()),
        "output": op.output[0] if op.output else "",
        "outputs": list(op.output),
        "shape": None,
        "dtype": "?",
        "multiply_adds": 0,
        "parameters": 0,
        "nbytes": 0,
        "refused": {},
    }


def add_times(rows: List[Dict[str, Any]], path: str) -> None:
    """Gives each row its "ms" from a file that ``armnet profile --json`` wrote. UsageError if it is not such a file, or
    belongs to another network.
    """
    import json

    from runtime_arm.errors import UsageError

    try:
        with open(path, encoding="utf-8") as file:
            timed = json.load(file)["operators"]
        times = {(int(one["index"]), str(one["type"]), str(one["output"])): float(one["ms"]) for one in timed}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{path}: not what armnet profile --json writes") from None
    for row in rows:
        index = -1 if row["index"] is None else row["index"]
        row["ms"] = times.get((index, row["type"], row["output"]))
    if not any(row["ms"] is not None for row in rows):
        raise UsageError(f"{path}: the profile of another network; it has none of its operators")


def _print_text(facts: Dict[str, Any], memory: Any) -> None:
    from armnet.console import print_table
    from runtime_arm.app.display import count, shape_text, size

    print(f"inputs   {', '.join(facts['inputs'])}")
    print(f"outputs  {', '.join(facts['outputs'])}\n")
    columns = ["#", "operator", "engine", "output", "shape", "parameters", "multiply-adds", "bytes", "live", ""]
    bars = _bars(memory.live)
    live = [*map(size, memory.live), *[""] * (len(facts["operators"]) - len(bars))]
    rows = [
        [
            "" if row["index"] is None else row["index"],
            row["type"],
            row["engine"],
            row["output"],
            shape_text(row["shape"]),
            count(row["parameters"]),
            count(row["multiply_adds"]),
            size(row["nbytes"]),
            live[place],
            bars[place] if place < len(bars) else "",
        ]
        for place, row in enumerate(facts["operators"])
    ]
    print_table(columns, rows, right=["#", "parameters", "multiply-adds", "bytes", "live"])
    inserted = sum(row["index"] is None for row in facts["operators"])
    changes = f" and {inserted} changes of layout" if inserted else ""
    print(
        f"\n{len(rows) - inserted} operators{changes}, {count(facts['parameters']).strip()} parameters, "
        f"{count(facts['multiply_adds']).strip()} multiply-adds, {size(facts['weights_nbytes'])} of weights"
    )
    print(
        f"arena {size(memory.arena_nbytes)}, of which at most {size(memory.largest_scratch())} are scratch memory: "
        f"{memory.verdict()}"
    )


def _bars(live: Sequence[int], width: int = 24) -> List[str]:
    """The bytes in use at each step as bars, the longest of them ``width`` wide."""
    most = max([*live, 1])
    return ["#" * -(-nbytes * width // most) for nbytes in live]
