"""The actions of ``armnet device``, one function each: from the command's arguments to an exit status."""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

import armnet
from armnet.console import note, print_json, print_table, progress
from armnet.device.findings import as_text
from armnet.opening import pair_folder, pair_of
from device_tests.host.suite_run import (
    SUFFIXES,
    SuiteResult,
    files_below,
    pair_files,
    prepared_suite,
    run_suite,
    runtime_files,
)
from device_tests.host.targets.factory import known_targets, target_of
from device_tests.host.targets.target import Target
from runtime_arm.app.answer import Options, Prepared
from runtime_arm.app.answering import Record
from runtime_arm.app.model import Model
from runtime_arm.app.result_files import write_arrays
from runtime_arm.app.sources import Item, items_of
from runtime_arm.errors import ArmnetError, UsageError

NETWORK = "network"  # the name of the pair or bundle in the target's folder


def list_action(args: argparse.Namespace) -> int:
    """Lists what a target can be."""
    rows = known_targets()
    if args.json:
        print_json("device list", {"targets": [{"target": name, "what": what} for name, what in rows]})
    else:
        print_table(["target", "what it is"], rows, whole=["target"])
    return 0


def test_action(args: argparse.Namespace) -> int:
    """Runs the suite on every target; returns 1 if a test failed, 2 if a target could not be used."""
    bundles = [Path(name) for name in args.bundle]
    for bundle in bundles:
        if not bundle.is_file():
            raise UsageError(f"{bundle}: no such bundle; armnet pack makes one")
    results: List[SuiteResult] = []
    refusals: List[str] = []
    note("armnet: preparing the suite")
    with prepared_suite(bundles) as files:
        for name in args.targets:
            note(f"armnet: {name}: running the suite")
            try:
                with target_of(name, args.python, args.pocl) as target, progress(name) as report:
                    said = partial(report, "tests")
                    results.append(run_suite(target, files, args.timeout, args.select or "", said))
            except ArmnetError as error:
                refusals.append(str(error))
            else:
                note(f"armnet: {_counts(results[-1])}")
    if args.json:
        print_json("device test", {"results": [result._asdict() for result in results], "refused": refusals})
    else:
        _print_results(results)
    for refusal in refusals:
        note(f"armnet: {refusal}")
    return 2 if refusals else int(any(result.failed for result in results))


def _counts(result: SuiteResult) -> str:
    failed, skipped = len(result.failed), len(result.skipped)
    return f"{result.target}: {result.passed} passed, {failed} failed, {skipped} skipped in {result.seconds:.0f} s"


def _print_results(results: List[SuiteResult]) -> None:
    counts = ["passed", "failed", "skipped", "seconds"]
    rows = [
        [r.target, r.passed, len(r.failed), len(r.skipped), f"{r.seconds:.0f}", *_short_identity(r.identity)]
        for r in results
    ]
    if rows:
        print_table(["target", *counts, "CPU", "Python", "NumPy", "BLAS"], rows, right=counts)
    for result in results:
        for what, tests in (("failed", result.failed), ("skipped", result.skipped)):
            for test in tests:
                print(f"{result.target}: {what} {test['test']}: {test['reason']}")


def _short_identity(identity: Dict[str, Any]) -> List[str]:
    blas = identity["blas"] or {"name": "none", "core": ""}
    return [identity["cpu"], identity["python"], identity["numpy"], f"{blas['name']} {blas['core']}".strip()]


def run_action(args: argparse.Namespace) -> int:
    """Runs a pair on a target; inputs are read, and pictures are prepared, on this machine."""
    model = Model(pair_of(args.pair), notice=lambda text: note(f"armnet: {text}"))
    runs = [(item.name, _prepared(model, item)) for item in items_of(args.input, model.pair.inputs)]
    with (
        tempfile.TemporaryDirectory(prefix="armnet-inputs-") as folder,
        target_of(args.target, args.python) as target,
        pair_folder(args.pair) as network,
    ):
        inputs: Dict[str, Path] = {}
        for number, (_, prepared) in enumerate(runs):
            inputs[f"{number}.npz"] = Path(folder, f"{number}.npz")
            named: Dict[str, Any] = {f"in_{name}": value for name, value in prepared.feeds.items()}
            np.savez(inputs[f"{number}.npz"], **named)
        target.deploy({**runtime_files(), **pair_files(network, NETWORK), **inputs})
        _ask(target, network, [*inputs, "--json", "--task", "tensors", "--output", "out.npz"], args)
        with np.load(io.BytesIO(target.fetch("out.npz"))) as stacked:
            outputs = {name: stacked[name] for name in stacked.files}
    if args.output:
        write_arrays(args.output, outputs)
    options = Options(top=5 if args.top is None else args.top)
    if args.top and model.decoder.kind == "tensors":
        with suppress(UsageError):  # outputs that are no scores of classes stay tensors
            model.as_task("classes", scores="logits")
    records = []
    for number, (name, prepared) in enumerate(runs):
        own = outputs if len(runs) == 1 else {key: value[number] for key, value in outputs.items()}
        records.append(Record(name, model.answers_from(own, prepared, options)))
    if args.json:
        print_json("device run", {"target": args.target, "runs": [record.to_dict() for record in records]})
    else:
        print("\n".join(line for record in records for line in record.lines()))
    return 0


def _prepared(model: Model, item: Item) -> Prepared:
    """An input as the net takes it, prepared on this machine."""
    if item.error is not None:
        raise item.error
    arrays = model.arrays_of(item.value)
    return model.prepared(item.value) if arrays is None else model.of_arrays(arrays)


def bench_action(args: argparse.Namespace) -> int:
    """Times a pair on a target."""
    pair_of(args.pair)
    with pair_folder(args.pair) as network, target_of(args.target, args.python) as target:
        target.deploy({**runtime_files(), **pair_files(network, NETWORK)})
        facts = _ask(target, network, ["--json", "--bench", str(args.runs)], args)
        identity = target.identity()
    if args.target.startswith(("emulated:", "full-system:")):
        note("armnet: times on an emulated machine mean nothing; armnet device count counts instructions")
    if args.json:
        print_json("device bench", {"target": args.target, "identity": identity, **facts})
    else:
        row = [args.target, facts["threads"], f"{facts['median_ms']:.2f}", f"{facts['fastest_ms']:.2f}"]
        numbers = ["threads", "median ms", "fastest ms"]
        columns = ["target", *numbers, "CPU", "Python", "NumPy", "BLAS"]
        print_table(columns, [[*row, *_short_identity(identity)]], right=numbers)
    return 0


def _ask(target: Target, network: Path, words: List[str], args: argparse.Namespace) -> Dict[str, Any]:
    """The JSON that the deployed bundle, or the runtime with the deployed pair, prints on the target."""
    threads = [] if args.threads is None else ["--threads", str(args.threads)]
    program = [NETWORK] if network.is_file() else ["-m", "runtime_arm", NETWORK]
    answer: Dict[str, Any] = json.loads(target.output([*program, *words, *threads], args.timeout))
    return answer


def doctor_action(args: argparse.Namespace) -> int:
    """Runs armnet doctor on a target."""
    pair = [NETWORK] if args.pair else []
    files = {**runtime_files(), **files_below(Path(armnet.__file__).parent, armnet.__name__, SUFFIXES)}
    with ExitStack() as stack:
        if pair:
            files.update(pair_files(stack.enter_context(pair_folder(args.pair)), NETWORK))
        target = stack.enter_context(target_of(args.target, args.python))
        target.deploy(files)
        facts = json.loads(target.output(["-m", "armnet", "doctor", *pair, "--json"], args.timeout))
    if args.json:
        own = {key: value for key, value in facts.items() if key not in ("schema", "command")}
        print_json("device doctor", {"target": args.target, **own})
    else:
        print(as_text(facts))
    return 0


def count_action(args: argparse.Namespace) -> int:
    """Counts the instructions of an inference."""
    from armnet.device.count import count

    return count(args)


def prepare_action(args: argparse.Namespace) -> int:
    """Makes emulated machines, or prints the hash of their recipes."""
    from device_tests.host import prepare

    if args.key:
        key = prepare.key()
        print_json("device prepare", {"key": key, "kept": list(prepare.KEPT)}) if args.json else print(key)
        return 0
    rows = []
    for name, path in prepare.prepared(args.parts):
        rows.append({"part": name, "path": str(path)})
        if not args.json:
            print(f"{name}\t{path}", flush=True)
    if args.json:
        print_json("device prepare", {"parts": rows})
    return 0


ACTIONS: Dict[str, Callable[[argparse.Namespace], int]] = {
    "list": list_action,
    "test": test_action,
    "run": run_action,
    "bench": bench_action,
    "doctor": doctor_action,
    "prepare": prepare_action,
    "count": count_action,
}
