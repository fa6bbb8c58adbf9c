"""Checks a model in a process of its own, and keeps the results in a table."""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Sequence

from scripts.checking.one_model import CRASH

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = (
    "model",
    "bytes",
    "outcome",
    "operators",
    "optimised operators",
    "export seconds",
    "optimize seconds",
    "inputs",
    "from the runtime",
    "optimised from plain",
    "two workers from one",
    "remark",
)


class Limits(NamedTuple):
    """Limits for one model."""

    seconds: float
    memory: float  # GB


def checked_in_process(paths: Sequence[Path], limits: Limits) -> Dict[str, Any]:
    """The row of a model, as ``one_model.checked`` gives it; a process that dies or takes too long is a crash."""
    nbytes = int(limits.memory * (1 << 30))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "scripts.checking.one_model", *map(str, paths)],
            capture_output=True,
            text=True,
            timeout=limits.seconds,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes)),
        )
    except subprocess.TimeoutExpired:
        return {"outcome": CRASH, "remark": f"took more than {limits.seconds:g} seconds"}
    try:
        row: Dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return row
    except (ValueError, IndexError):
        last = done.stderr.strip().splitlines()[-1:] or ["nothing was said"]
        return {"outcome": CRASH, "remark": f"ended with status {done.returncode}: {last[0][:300]}"}


def read_rows(path: Path) -> Dict[str, Dict[str, str]]:
    """The rows of a CSV file by model; none if there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


def write_rows(path: Path, rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str] = COLUMNS) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows.values())
