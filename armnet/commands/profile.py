"""Show how long each operator of an inference takes, and, with --why, why it does not use a faster engine.

  armnet profile PAIR --threads 1
  armnet profile PAIR --sort time
  armnet profile PAIR --why                     why not a faster engine
  armnet profile PAIR --trace trace.json        for chrome://tracing or ui.perfetto.dev

Operators behind one whose output shape depends on data are not listed.
"""

from __future__ import annotations

import argparse
from typing import Any, Dict, List

from armnet.arguments import add_device, add_inputs, add_json, add_pair, add_threads
from runtime_arm.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    add_inputs(parser)
    add_threads(parser)
    add_device(parser)
    parser.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="inferences to take the medians of (default: %(default)s)"
    )
    parser.add_argument(
        "--sort", choices=["order", "time"], default="order", help="how to sort the operators (default: %(default)s)"
    )
    parser.add_argument("--why", action="store_true", help="also tell why each operator does not use another engine")
    parser.add_argument("--trace", metavar="FILE", help="also write the last inference in Chrome's trace format")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from armnet.opening import pair_of
    from armnet.shapes import feeds_of, require_sizes, shapes_of, sizes_assumed
    from armnet.timing import Others
    from runtime_arm.execution.predictor import Predictor
    from runtime_arm.execution.profiling import profile

    if args.rounds < 1:
        raise UsageError(f"--rounds must be 1 or more, got {args.rounds}")
    pair = pair_of(args.pair)
    with Predictor(pair, threads=args.threads, device=args.device, half=args.half) as predictor:
        shapes = shapes_of(args.shape, pair)
        feeds = feeds_of(args.input, pair, shapes)
        with sizes_assumed(pair.inputs, feeds if args.input else shapes):
            require_sizes(pair.inputs, feeds if args.input else shapes)
            others = Others()
            timings = profile(predictor, feeds, args.rounds)
            noisy = others.warnings()
            kernels = _device_rows(predictor)
    for line in [*predictor.notes, *(f"warning: {line}" for line in noisy)]:
        note(line)
    if noisy and any(timing.step.workers > 1 for timing in timings):
        note("steps on several cores wait until each core is free: --threads 1 shows the time of a step alone")
    for line in [] if predictor.placement is None else predictor.placement.session.device.caveats():
        note(line)
    rows = [_row(timing) for timing in timings]
    total = sum(row["ms"] for row in rows)
    for row in rows:
        row["share"] = row["ms"] / total if total else 0.0
    rows += kernels
    if args.trace:
        _write_trace(args.trace, timings)
    if args.sort == "time":
        rows.sort(key=lambda row: -row["ms"])
    if args.json:
        print_json("profile", {"threads": predictor.threads, "ms": total, "operators": rows, "types": _by_type(rows)})
    else:
        _print_text(rows, total, args.why)
    return 0


def _device_rows(predictor: Any) -> List[Dict[str, Any]]:
    """The operators of islands, timed by the device's own clock. They run while DeviceFinish waits: no share of the
    total."""
    if predictor.placement is None:
        return []
    rows: List[Dict[str, Any]] = []
    for island in predictor.placement.islands:
        spent: Dict[Any, float] = {}
        for step, _, seconds in island.seconds():
            spent[step] = spent.get(step, 0.0) + seconds
        rows += [
            {**_facts(step, seconds), "engine": predictor.placement.session.device.spec, "share": 0.0, "refused": {}}
            for step, seconds in spent.items()
            if step is not None
        ]
    return rows


def _row(timing: Any) -> Dict[str, Any]:
    return {**_facts(timing.step, timing.seconds), "refused": timing.step.refusals}


def _facts(step: Any, seconds: float) -> Dict[str, Any]:
    from runtime_arm.planning.cost import Cost, cost_of
    from runtime_arm.registry.engine_preferences import hints
    from runtime_arm.registry.kernel import no_hints
    from runtime_arm.registry.schema import find

    known = find(step.op) is not None  # all but the steps that start and finish islands
    moved = sum(spec.nbytes for spec in [*step.in_specs, *step.out_specs] if spec is not None)
    cost = cost_of(step.op, step.in_specs, step.out_specs) if known else Cost(0, 0, moved)
    made = next(iter(step.out_specs), None)
    return {
        "index": step.index,
        "type": step.op.full_type,
        "engine": step.engine,
        "hints": hints(step.op) if step.kernel is not None and step.kernel.hints is not no_hints else [],
        "workers": step.workers,
        "output": (*step.op.output, "")[0],
        "shape": None if made is None else list(made.shape),
        "ms": seconds * 1e3,
        "gflops": 2e-9 * cost.multiply_adds / seconds if seconds else 0.0,
        "nbytes": cost.nbytes,
    }


def _by_type(rows: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    totals: Dict[str, Dict[str, Any]] = {}
    for row in rows:
        entry = totals.setdefault(row["type"], {"type": row["type"], "count": 0, "ms": 0.0, "share": 0.0})
        entry["count"] += 1
        entry["ms"] += row["ms"]
        entry["share"] += row["share"]
    return sorted(totals.values(), key=lambda entry: -entry["ms"])


def _print_text(rows: List[Dict[str, Any]], total: float, why: bool) -> None:
    from armnet.console import print_table

    columns = ["#", "operator", "engine", "cores", "shape", "ms", "share", "GFLOP/s", "bytes"]
    reasons = ["why not another engine"] if why else []
    numbers = ["#", "cores", "ms", "share", "GFLOP/s", "bytes"]
    print_table([*columns, *reasons], [_cells(row, why) for row in rows], right=numbers)
    print()
    types = [[one["type"], one["count"], f"{one['ms']:.3f}", f"{one['share']:.1%}"] for one in _by_type(rows)]
    print_table(["operator", "count", "ms", "share"], types, right=["count", "ms", "share"])
    print(f"\n{total:.3f} ms in {len(rows)} operators" + ("" if why else "; --why tells why no faster engine"))


def _cells(row: Dict[str, Any], why: bool) -> List[Any]:
    from runtime_arm.app.display import shape_text, size

    cells = [
        row["index"] if row["index"] >= 0 else "",
        row["type"],
        " ".join([row["engine"], *row["hints"]]),
        row["workers"],
        shape_text(row["shape"]),
        f"{row['ms']:.3f}",
        f"{row['share']:.1%}" if row["share"] else "",
        f"{row['gflops']:.1f}" if row["gflops"] else "",
        size(row["nbytes"]),
    ]
    return [*cells, "; ".join(f"{engine}: {reason}" for engine, reason in row["refused"].items())] if why else cells


def _write_trace(path: str, timings: List[Any]) -> None:
    """https://chromium.googlesource.com/catapult: trace event format, complete events, microseconds."""
    import json

    from runtime_arm.files import write_file

    events = [
        {
            "name": timing.step.op.full_type,
            "cat": timing.step.engine,
            "ph": "X",
            "pid": 0,
            "tid": 0,
            "ts": timing.began * 1e6,
            "dur": timing.seconds * 1e6,
            "args": {"signature": timing.step.op.signature(), "workers": timing.step.workers},
        }
        for timing in timings
    ]
    write_file(path, [json.dumps({"traceEvents": events}).encode()])
