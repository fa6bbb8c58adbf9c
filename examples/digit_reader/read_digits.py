"""Read the digits in the pictures of a folder, and write a line for each to a table.

Needs runtime_arm beside it, or armnet installed; NumPy; Pillow.
"""

from __future__ import annotations

import argparse
import csv
import time
from datetime import datetime
from pathlib import Path
from typing import Any, List, Set

import runtime_arm
from runtime_arm.errors import ArmnetError

COLUMNS = ["time", "file", "digit", "score", "problem"]
PICTURES = {".png", ".jpg", ".jpeg", ".bmp"}
SETTLED = 0.5  # seconds without a change before a file counts as complete


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a pair's folder or a bundle")
    parser.add_argument("inbox", type=Path, help="the folder in which pictures arrive")
    parser.add_argument("table", type=Path, help="the .csv to write to")
    parser.add_argument("--once", action="store_true", help="read what is there, and end")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="how often to look (default: 2)")
    args = parser.parse_args()
    known = read_before(args.table)
    with runtime_arm.open(args.model, threads=1) as model:
        while True:
            for picture in new_pictures(args.inbox, known, 0.0 if args.once else SETTLED):
                line = read(model, picture)
                append(args.table, line)
                print(*line[1:], flush=True)
                known.add(picture.name)
            if args.once:
                break
            time.sleep(args.every)


def read_before(table: Path) -> Set[str]:
    """The files that have a line already."""
    if not table.exists():
        return set()
    with open(table, newline="", encoding="utf-8") as file:
        return {row["file"] for row in csv.DictReader(file)}


def new_pictures(inbox: Path, known: Set[str], settled: float) -> List[Path]:
    """The pictures without a line that nobody is writing any more, the oldest first."""
    found = [path for path in inbox.iterdir() if path.suffix.lower() in PICTURES and path.name not in known]
    ready = [path for path in found if time.time() - path.stat().st_mtime >= settled]
    return sorted(ready, key=lambda path: (path.stat().st_mtime, path.name))


def read(model: Any, picture: Path) -> List[str]:
    """The line of one picture."""
    now = datetime.now().isoformat(timespec="seconds")
    try:
        result = model.predict(picture)
    except ArmnetError as error:
        return [now, picture.name, "", "", str(error)]
    return [now, picture.name, result.label, f"{result.score:.4f}", ""]


def append(table: Path, line: List[str]) -> None:
    """Write a line at the end of the table, which gets its columns first."""
    is_new = not table.exists()
    with open(table, "a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerow(line)


if __name__ == "__main__":
    main()
