"""A cache outside the repository. Its folders are complete, or they are rebuilt."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Callable, Iterator, TextIO

from runtime_arm.errors import ArmnetError, MissingDependency

STAMP = ".stamp.json"
PATIENCE = 5.0  # seconds to wait silently for another process that holds the cache


class EmulationUnavailable(MissingDependency):
    """Emulated ARM is not possible on this machine; the message says in one line what is missing."""


def progress(message: str) -> None:
    """Prints one line on stderr about work that takes long."""
    print(f"armnet: {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder, which is made if necessary, waiting for other processes. EmulationUnavailable if it cannot."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise EmulationUnavailable(f"cannot write the cache {folder}: {error.strerror}") from error
    with lock:
        patience = time.monotonic() + PATIENCE
        while not _acquired(lock):
            if time.monotonic() > patience:
                progress(f"waiting for another process that is preparing {folder}")
                fcntl.flock(lock, fcntl.LOCK_EX)
                break
            time.sleep(0.05)
        yield


def _acquired(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def built(folder: Path, recipe: object, build: Callable[[Path], None]) -> Path:
    """Returns ``folder`` with what ``build`` makes; builds it unless it is there, complete and of the same recipe.

    recipe: JSON that changes whenever the result should. build: fills an empty folder, which replaces ``folder`` only
    when it is complete. Complete means that no file was removed, added or changed in size. Call it under ``locked``.
    """
    wanted = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    stamp = _read_stamp(folder)
    if stamp.get("recipe") == wanted and stamp.get("contents") == _contents(folder):
        return folder
    if stamp or folder.exists():
        progress(f"{folder} is damaged or out of date; rebuilding it")
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        build(partial)
        (partial / STAMP).write_text(json.dumps({"recipe": wanted, "contents": _contents(partial)}))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except (OSError, ArmnetError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, ArmnetError):
            raise
        raise EmulationUnavailable(f"cannot build {folder}: {error}") from error
    return folder


def _read_stamp(folder: Path) -> dict[str, str]:
    try:
        stamp = json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _contents(folder: Path) -> str:
    """A hash of every file's path and size, except in bytecode caches, to which Python may add at any time."""
    lines: list[str] = []
    pending = [str(folder)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        pending.append(entry.path)
                elif entry.name != STAMP:
                    lines.append(f"{os.path.relpath(entry.path, folder)} {entry.stat(follow_symlinks=False).st_size}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
