"""Runs the suite on targets: prepares its data on the host, sends it to the target, brings the results back."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence

import numpy as np

import device_tests
import runtime_arm
from device_tests.host.golden_vectors import save_golden_vectors
from device_tests.host.targets.target import TIMEOUT, Files, Target, last_line
from device_tests.host.training_cases import save_training_cases
from exporter.bundle.random_inputs import random_inputs
from runtime_arm import Predictor
from runtime_arm.registry.kernel import REFERENCE

NETWORKS = 6  # how many small random networks the suite runs
SUFFIXES = (".py", ".desc", ".cl")
DATA = "device_tests/suite/data"
PROGRESS = re.compile(r"suite: (\d+) of (\d+) tests\n?")  # as device_tests.suite prints it


class SuiteResult(NamedTuple):
    """The results of the suite on one target. ``failed`` and ``skipped`` have each test's name and a reason."""

    target: str
    passed: int
    failed: List[Dict[str, str]]
    skipped: List[Dict[str, str]]
    seconds: float
    identity: Dict[str, Any]


@contextmanager
def prepared_suite(bundles: Sequence[Path] = ()) -> Iterator[Files]:
    """The suite with its data and the runtime, as files to deploy; ``bundles`` are more networks for it to run."""
    with tempfile.TemporaryDirectory(prefix="armnet-suite-") as folder:
        data = Path(folder)
        save_golden_vectors(data / "vectors.pb")
        for seed in range(NETWORKS):
            _save_network(data / "networks" / f"random_{seed}", seed)
        save_training_cases(data / "training")
        (data / "bundles").mkdir()
        for bundle in bundles:
            shutil.copyfile(bundle, data / "bundles" / bundle.name)
        yield {**runtime_files(), **suite_files(), **files_below(data, DATA)}


def run_suite(
    target: Target,
    files: Files,
    timeout: float = TIMEOUT,
    select: str = "",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SuiteResult:
    """Deploys the files to an open target and runs the suite there.

    select: an expression for pytest's ``-k``, "" for all tests. progress: called with the number of tests that have
    ended and the number of all, from another thread. DeviceError if the suite does not run, or runs no test.
    """
    target.deploy(files)

    def on_line(line: str) -> None:
        found = PROGRESS.fullmatch(line)
        if found is not None:
            progress(int(found[1]), int(found[2]))

    done = target.run(["-m", "device_tests.suite", *(["-k", select] if select else [])], timeout, on_line)
    try:
        result = SuiteResult(target.name, **json.loads(last_line(done.stdout)))
    except (ValueError, TypeError):
        errors = PROGRESS.sub("", done.stderr)
        raise target.error(last_line(errors or done.stdout) or "the suite printed nothing") from None
    if not (result.passed or result.failed or result.skipped):
        raise target.error(f"no test matches {select!r}; no test was run" if select else "the suite has no tests")
    return result


def runtime_files() -> Files:
    """The files of the runtime, to be deployed."""
    return files_below(Path(runtime_arm.__file__).parent, "runtime_arm", SUFFIXES)


def suite_files() -> Files:
    """The files of the suite without its data, to be deployed."""
    package = Path(device_tests.__file__).parent
    return {
        "device_tests/__init__.py": package / "__init__.py",
        **files_below(package / "suite", "device_tests/suite", SUFFIXES),
    }


def pair_files(path: Path, name: str) -> Files:
    """The files of a pair's folder, or a bundle, to be deployed under that name."""
    return {name: path} if path.is_file() else files_below(path, name)


def files_below(folder: Path, name: str, suffixes: Sequence[str] = ()) -> Files:
    """The files of a folder, or those with one of the ``suffixes``, to be deployed as the folder ``name``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and (not suffixes or path.suffix in suffixes))
    return {f"{name}/{path.relative_to(folder).as_posix()}": path for path in files}


def _save_network(folder: Path, seed: int) -> None:
    """Saves an optimised random network, with inputs and the outputs that the reference kernels compute."""
    from device_tests.host.networks.random import random_network
    from exporter import export
    from optimize import optimize

    plain = export(random_network(seed))
    inputs = random_inputs(plain, seed)
    with Predictor(optimize(plain, REFERENCE), threads=1) as predictor:
        outputs = predictor.run(inputs)
    optimize(plain).save(folder)
    named = {**{f"in_{name}": x for name, x in inputs.items()}, **{f"out_{name}": y for name, y in outputs.items()}}
    np.savez(folder / "sample.npz", **named)
