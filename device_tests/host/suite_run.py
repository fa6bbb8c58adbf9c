"""Runs the suite on targets: prepares its data here, sends it there, brings the results back."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence

import numpy as np

import device_tests
import runtime_arm
from device_tests.host.golden_vectors import save_golden_vectors
from device_tests.host.targets.target import TIMEOUT, Files, Target, last_line
from exporter.bundle.random_inputs import random_inputs
from runtime_arm import Predictor
from runtime_arm.registry.kernel import REFERENCE

NETWORKS = 6  # small ones, drawn at random
SUFFIXES = (".py", ".desc")
DATA = "device_tests/suite/data"


class SuiteResult(NamedTuple):
    """What came of the suite on one target. ``failed`` and ``skipped`` have the name of each test and a reason."""

    target: str
    passed: int
    failed: List[Dict[str, str]]
    skipped: List[Dict[str, str]]
    seconds: float
    identity: Dict[str, Any]


@contextmanager
def prepared_suite(bundles: Sequence[Path] = ()) -> Iterator[Files]:
    """The suite with its data and the runtime, as files to deploy; ``bundles`` are networks to run beside its own."""
    with tempfile.TemporaryDirectory(prefix="armnet-suite-") as folder:
        data = Path(folder)
        save_golden_vectors(data / "vectors.pb")
        for seed in range(NETWORKS):
            _save_network(data / "networks" / f"random_{seed}", seed)
        (data / "bundles").mkdir()
        for bundle in bundles:
            shutil.copyfile(bundle, data / "bundles" / bundle.name)
        yield {**runtime_files(), **suite_files(), **files_below(data, DATA)}


def run_suite(target: Target, files: Files, timeout: float = TIMEOUT, arguments: Sequence[str] = ()) -> SuiteResult:
    """Deploys the files to an open target and runs the suite; ``arguments`` go to pytest there."""
    target.deploy(files)
    done = target.run(["-m", "device_tests.suite", *arguments], timeout)
    try:
        result = json.loads(last_line(done.stdout))
        return SuiteResult(target.name, **result)
    except (ValueError, TypeError):
        raise target.error(last_line(done.stderr or done.stdout) or "the suite said nothing") from None


def runtime_files() -> Files:
    """The runtime, as files to deploy."""
    return files_below(Path(runtime_arm.__file__).parent, "runtime_arm", SUFFIXES)


def suite_files() -> Files:
    """The suite without its data, as files to deploy."""
    package = Path(device_tests.__file__).parent
    return {
        "device_tests/__init__.py": package / "__init__.py",
        **files_below(package / "suite", "device_tests/suite", SUFFIXES),
    }


def pair_files(path: Path, name: str) -> Files:
    """A pair's folder or a bundle, as files to deploy under that name."""
    return {name: path} if path.is_file() else files_below(path, name)


def files_below(folder: Path, name: str, suffixes: Sequence[str] = ()) -> Files:
    """All files of a folder, or those that end in one of ``suffixes``, to be deployed as the folder ``name``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and (not suffixes or path.suffix in suffixes))
    return {f"{name}/{path.relative_to(folder).as_posix()}": path for path in files}


def _save_network(folder: Path, seed: int) -> None:
    """A random network, optimised, with inputs and the outputs of the plain one by the reference kernels."""
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
