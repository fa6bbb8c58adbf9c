"""List what armnet keeps on disk, to be fast the next time, and empty it.

  armnet cache
  armnet cache --empty                   pairs of other formats, programs (compiled kernels), code of bundles, plans
  armnet cache --empty pairs             one of them alone
  armnet cache --empty everything        emulated machines, too

The cache is in $ARMNET_CACHE, or else in $XDG_CACHE_HOME/armnet, or else in ~/.cache/armnet. Pairs, programs, code and
plans together take at most $ARMNET_CACHE_LIMIT bytes (2G if it is not set). What has not been used for the longest time
is removed first, and is made again when it is needed. The table names the models that were used last; --json lists all
entries.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path
from typing import Any, Dict, Iterator, List

from armnet.arguments import add_json
from runtime_arm.errors import ResourceError, UsageError

EVERYTHING = "everything"
MOST_NAMED = 10  # models of a part that are listed one by one; --json lists all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--empty",
        nargs="*",
        metavar="NAME",
        help="empty these parts of the cache (default: pairs, programs, code and plans)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json, print_table
    from runtime_arm.app.display import size
    from runtime_arm.machine.cache import cache_root, limit_nbytes

    root, limit = cache_root(), limit_nbytes()
    freed = None if args.empty is None else _emptied(root, args.empty)
    rows = [row for folder in _folders(root) for row in _rows(folder)]
    if args.json:
        print_json("cache", {"folder": str(root), "limit": limit, "freed": freed, "entries": rows})
        return 0
    if freed is not None:
        note(f"armnet: freed {size(freed).strip()}")
    cells = [[row["part"], row["entry"], row["holds"], size(row["nbytes"]), row["used"]] for row in _shown(rows)]
    if cells:
        print_table(["part", "entry", "holds", "bytes", "last used"], cells, right=["bytes"])
    total = sum(row["nbytes"] for row in rows)
    print(
        f"{root}: {size(total).strip()} in {len(rows)} entries; "
        f"limit of pairs, programs, code and plans {size(limit).strip()}"
    )
    return 0


def _shown(rows: List[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
    """The rows of the table: for each part the models that were used last, and one row for all others."""
    for part, entries in groupby(rows, key=lambda row: str(row["part"])):
        every = list(entries)
        named = [row for row in every if row["holds"]][:MOST_NAMED]
        yield from named
        rest = [row for row in every if row not in named]
        if len(rest) == 1:
            yield rest[0]
        elif rest:
            nbytes, used = sum(row["nbytes"] for row in rest), max(row["used"] for row in rest)
            entry = f"{len(rest)} {'more' if named else 'entries'}"
            yield {"part": part, "entry": entry, "holds": "", "nbytes": nbytes, "used": used}


def _folders(root: Path) -> List[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:  # there is no cache
        return []


def _emptied(root: Path, names: List[str]) -> int:
    """Removes parts of the cache; returns how many bytes that frees."""
    from runtime_arm.machine.cache import PARTS, clear

    there = {folder.name: folder for folder in _folders(root)}
    chosen = list(there) if EVERYTHING in names else names or [name for name in PARTS if name in there]
    for name in chosen:
        if name not in there and name not in PARTS:
            raise UsageError(f"the cache has no part {name!r}; it has {', '.join(there) or 'none'}")
    try:
        return sum(clear(there[name]) for name in chosen if name in there)
    except OSError as error:
        raise ResourceError(f"{root}: cannot be emptied: {error.strerror}") from error


def _rows(folder: Path) -> List[Dict[str, Any]]:
    """The entries of a part of the cache; what is no part is one entry, if anything is in it."""
    import time

    from runtime_arm.machine.cache import PARTS, entries, entry_of

    found = entries(folder) if folder.name in PARTS else [entry_of(folder)]
    return [
        {
            "part": folder.name,
            "entry": entry.path.name[:12] if folder.name in PARTS else "",
            "holds": _held(entry.path),
            "nbytes": entry.nbytes,
            "used": time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used)),
        }
        for entry in found
        if folder.name in PARTS or entry.nbytes
    ]


def _held(path: Path) -> str:
    """The name of the model that a pair was made from; "" if the entry is not a pair."""
    from runtime_arm.errors import ArmnetError
    from runtime_arm.files import map_file
    from runtime_arm.pair.metadata import MODEL, parse_model

    try:
        meta = parse_model(map_file(path / MODEL), str(path)).meta if path.is_dir() else {}
    except ArmnetError:  # damaged, or no pair
        return ""
    return str((meta.get("source") or {}).get("name", ""))
