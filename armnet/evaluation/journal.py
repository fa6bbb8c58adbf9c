"""The journal of an evaluation: the answers so far, so that an evaluation that was killed continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, TextIO

from armnet.evaluation.example import Finding
from runtime_arm.errors import ResourceError
from runtime_arm.machine.cache import cache_root
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.version import VERSION

FORGOTTEN = 30 * 86400.0  # seconds


class Journal:
    """The findings of one place, one line of JSON each, in a file of the cache. It is removed when all are counted.

    what: strings that together identify the evaluation: another model, other data or another place has another journal.
    fresh: forget what it holds. If the system refuses to write, findings are only remembered, and ``lost`` says why.
    """

    def __init__(self, what: Sequence[str], fresh: bool = False):
        key = hashlib.sha256("\0".join([VERSION, *what]).encode()).hexdigest()[:32]
        self.lost = ""
        self.path: Optional[Path] = None
        try:
            self.path = cache_root() / "evaluations" / f"{key}.jsonl"
        except ResourceError as error:
            self.lost = str(error)
        self._file: Optional[TextIO] = None
        self.known: Dict[int, Finding] = {}
        if fresh:
            self.remove()  # which the system may refuse
        else:
            self.known = self._read()

    def _read(self) -> Dict[int, Finding]:
        known: Dict[int, Finding] = {}
        if self.path is None:
            return known
        with suppress(OSError), open(self.path, encoding="utf-8") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError):  # the last line of a run that was killed may be cut off
                    entry: Dict[str, Any] = json.loads(line)
                    known[int(entry["example"])] = dict(entry["finding"])
        return known

    def write(self, number: int, finding: Finding) -> None:
        """Keeps a finding; it is in the file when this returns, unless ``lost`` says why it is not."""
        self.known[number] = finding
        if self.path is None or self.lost:
            return
        try:
            if self._file is None:
                self._file = _opened(self.path)
            self._file.write(json.dumps({"example": number, "finding": finding}) + "\n")
            self._file.flush()
        except OSError as error:
            self.lost = f"{self.path}: {error.strerror or error}"
            self.close()

    def close(self) -> None:
        """Stop writing; the file stays."""
        if self._file is not None:
            with suppress(OSError):  # what could not be written is tried again here
                self._file.close()
            self._file = None

    def remove(self) -> None:
        """Forget everything."""
        self.close()
        if self.path is not None:
            with suppress(OSError):
                os.unlink(self.path)


def _opened(path: Path) -> TextIO:
    """The file, to write at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _forget(path.parent)
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    if file.tell():
        file.write("\n")  # behind a line that may be cut off
    return file


def _forget(folder: Path) -> None:
    """Removes the journals of evaluations that nobody has continued for a long time."""
    for path in folder.glob("*.jsonl"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - FORGOTTEN:
                path.unlink()


def fingerprint(pair: Pair) -> str:
    """A text that changes whenever a pair computes something else, or its answers are read in another way."""
    digest = hashlib.sha256()
    nets: Sequence[NetDef] = (pair.init_net, pair.predict_net)
    for net in nets:
        digest.update(net.to_bytes())
    digest.update(json.dumps(dict(pair.meta), sort_keys=True, default=str).encode())
    return digest.hexdigest()
