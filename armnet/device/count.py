"""``armnet device count``: counts the instructions of a pair, or of the networks that have a budget."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any, Dict, List

from armnet.console import note, print_json, print_table
from armnet.opening import name_of, pair_folder
from device_tests.host.counting import budget_file, budgets
from device_tests.host.counting.operator_counts import (
    OTHER_RUNTIMES,
    NetworkCounts,
    count_other_runtime,
    count_pair,
    runtime_of,
)
from device_tests.host.counting.regions import KINDS, Counts
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import Machine, machine_with
from device_tests.host.targets.folder import machine_target
from runtime_arm.errors import UsageError

COLUMNS = ["instructions", "SIMD and float", "multiply-add", "load and store"]
CHANGE, START = "against budget", "start"


def count(args: argparse.Namespace) -> int:
    """Counts a pair, or the networks that have a budget; returns 1 if one of these exceeds its budget."""
    if args.budget and not args.pair:
        raise UsageError("--budget FILE is the budget of one model: name it, armnet device count PAIR --budget FILE")
    if args.update_budget and not args.budget and (args.pair or args.cpu != budgets.CPU):
        raise UsageError(
            "--update-budget takes --budget FILE with a PAIR; without, it counts the networks that have a budget, "
            f"on {budgets.CPU}: give no PAIR and no other --cpu"
        )
    machine = machine_with(args.cpu)
    if args.budget:
        return _count_against_file(args, machine)
    if args.pair:
        return _count_one(args, machine)
    return _count_all(args, machine)


def _count_one(args: argparse.Namespace, machine: Machine) -> int:
    with pair_folder(args.pair) as folder:
        counts = count_pair(machine, folder)
    others = {
        f"{runtime_of(Path(model))} {model}": count_other_runtime(machine, Path(model)) for model in args.against or ()
    }
    if args.json:
        operators = [{**op._asdict(), "counts": _by_kind(op.counts)} for op in counts.operators]
        against = {name: _by_kind(counted) for name, counted in others.items()}
        facts = {
            "machine": machine.name,
            "network": _by_kind(counts.network),
            "operators": operators,
            "start": counts.start.instructions,
        }
        print_json("device count", {**facts, "others": against})
        return 0
    _print_operators(counts)
    rows = [[name, *_millions(counted)] for name, counted in {"armnet": counts.network, **others}.items()]
    print(f"\nmillions of instructions per inference on {machine.name}, one thread")
    print_table(["", *COLUMNS], rows, right=COLUMNS)
    print(f"start, from loading the runtime to the first output: {counts.start.instructions / 1e6:.0f} M instructions")
    return 0


def _count_against_file(args: argparse.Namespace, machine: Machine) -> int:
    """Counts a pair and compares it with a budget file, or writes that; returns 1 if it exceeds its budget."""
    path, verdict = Path(args.budget), budget_file.Verdict([])
    if not args.update_budget:
        budget_file.entry_of(path, machine.name, "--update-budget")
    with pair_folder(args.pair) as folder, machine_target(machine.name, machine) as target:
        found = budget_file.measured(target, folder, machine)
    if args.update_budget:
        budget_file.update(path, found)
        note(f"armnet: {path}: the budget for {machine.name} is written")
    else:
        verdict = budget_file.compared(path, found, "--update-budget")
    assert found.counts is not None
    if verdict.uncompared:
        note(f"armnet: {path}: instructions not compared, counted under other conditions: {verdict.uncompared}")
    if args.json:
        facts = {"machine": machine.name, "network": _by_kind(found.counts.network), "memory": found.memory}
        print_json("device count", {**facts, "start": found.counts.start.instructions, "excesses": verdict.excesses})
        return int(bool(verdict.excesses))
    print(f"millions of instructions per inference on {machine.name}, one thread; bytes of weights and arena")
    row = [*_millions(found.counts.network), f"{found.counts.start.instructions / 1e6:.0f}", f"{found.nbytes:,}"]
    columns = [*COLUMNS, START, "bytes"]
    print_table(["network", *columns], [[name_of(args.pair), *row]], right=columns)
    for excess in verdict.excesses:
        print(f"{path}: {excess}")
    return int(bool(verdict.excesses))


def _print_operators(counts: NetworkCounts) -> None:
    total = counts.network.instructions
    rows = [
        [op.number, op.type, op.engine, op.output, *_millions(op.counts), f"{op.counts.instructions / total:.1%}"]
        for op in counts.operators
    ]
    print_table(["#", "operator", "engine", "output", *COLUMNS, "share"], rows, right=["#", *COLUMNS, "share"])


def _count_all(args: argparse.Namespace, machine: Machine) -> int:
    rows: List[Dict[str, Any]] = []
    difference = ""
    conditions = budgets.counted_on(machine)
    with tempfile.TemporaryDirectory(prefix="armnet-count-") as name:
        for network in budgets.NETWORKS:
            note(f"armnet: counting {network} on {machine.name}")
            model = budgets.source_model(network, Path(name))
            counts = budgets.count_network(machine, model, Path(name))
            row: Dict[str, Any] = {
                "network": network,
                "counts": _by_kind(counts.network),
                "start": counts.start.instructions,
            }
            if args.update_budget:
                budgets.write_budget(network, budgets.as_budget(machine, counts))
            budget = budgets.read_budget(network)
            difference = budgets.other_conditions(budget, conditions)
            row["budget"] = None if difference else budget.network["instructions"]
            row["excesses"] = [] if difference else budgets.excesses(budget, counts)
            row["others"] = _others(machine, model, Path(name)) if args.against is not None else {}
            rows.append(row)
    if difference:
        note(f"armnet: not compared with the budget, which was counted under other conditions: {difference}")
    if args.json:
        print_json("device count", {"machine": machine.name, "networks": rows})
    else:
        _print_networks(machine, rows)
    return int(any(row["excesses"] for row in rows))


def _others(machine: Machine, model: Path, folder: Path) -> Dict[str, Any]:
    """Instructions of the other runtimes for the same network, by name; a note says why one is missing."""
    others = {}
    for name in OTHER_RUNTIMES.values():
        try:
            others[name] = count_other_runtime(machine, budgets.model_for_runtime(model, name, folder)).instructions
        except EmulationUnavailable as error:
            note(f"armnet: {error}")
    return others


def _print_networks(machine: Machine, rows: List[Dict[str, Any]]) -> None:
    others = list(dict.fromkeys(name for row in rows for name in row["others"]))
    cells = []
    for row in rows:
        counts = [f"{row['counts'][kind] / 1e6:.1f}" for kind in KINDS]
        theirs = [f"{row['others'][other] / 1e6:.1f}" if other in row["others"] else "" for other in others]
        cells.append([row["network"], *counts, _change(row), f"{row['start'] / 1e6:.0f}", *theirs])
    print(f"millions of instructions per inference on {machine.name}, one thread")
    print_table(["network", *COLUMNS, CHANGE, START, *others], cells, right=[*COLUMNS, CHANGE, START, *others])
    for row in rows:
        for excess in row["excesses"]:
            print(f"{row['network']}: {excess}")


def _change(row: Dict[str, Any]) -> str:
    return f"{row['counts']['instructions'] / row['budget'] - 1:+.1%}" if row["budget"] else ""


def _by_kind(counts: Counts) -> Dict[str, int]:
    return {kind: getattr(counts, kind) for kind in KINDS}


def _millions(counts: Counts) -> List[str]:
    return [f"{getattr(counts, kind) / 1e6:.2f}" for kind in KINDS]
