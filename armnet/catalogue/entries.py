"""Reads a catalogue of models.

    {"schema": 1, "models": [{"name": "yunet", "what": ..., "task": "faces", "licence": "Apache-2.0", "source": URL,
                              "accuracy": text or null, "preprocessing": rule or null, "labels": file, list or null,
                              "files": [{"name": "yunet.onnx", "urls": [...], "sha256": ..., "nbytes": ...}]}]}

The rule is what ``armnet export --preprocessing`` takes; labels are a list of names, or a file with one per line.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from runtime_arm.errors import FormatError, UsageError, suggestion
from runtime_arm.files import AnyPath, one_line_errors

OWN = Path(__file__).parent / "models.json"
SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_NBYTES = 1 << 34  # of one file
_MOST_CATALOGUE = 1 << 24


class RemoteFile(NamedTuple):
    """A file on a server. urls: its addresses, in the order in which they are tried."""

    name: str
    urls: Sequence[str]
    sha256: str
    nbytes: int


class Entry(NamedTuple):
    """A model of the catalogue. task: the kind of its results. accuracy: as published by its makers."""

    name: str
    what: str
    task: str
    licence: str
    source: str
    files: Sequence[RemoteFile]
    accuracy: Optional[str]
    preprocessing: Any
    labels: Union[RemoteFile, Sequence[str], None]

    @property
    def nbytes(self) -> int:
        """The bytes of all its files."""
        labels = [self.labels] if isinstance(self.labels, RemoteFile) else []
        return sum(file.nbytes for file in [*self.files, *labels])


def read_catalogue(path: AnyPath = OWN) -> Dict[str, Entry]:
    """The models by name. FormatError, naming the file and the entry, if it is no catalogue."""
    with one_line_errors(path), open(path, "rb") as file:
        content = file.read(_MOST_CATALOGUE + 1)
    try:
        if len(content) > _MOST_CATALOGUE:
            raise ValueError("it is too large")
        whole = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is no catalogue: {error}") from None
    if not isinstance(whole, dict) or whole.get("schema") != SCHEMA or not isinstance(whole.get("models"), list):
        raise FormatError(f"{path}: is not a catalogue of schema {SCHEMA}")
    entries: Dict[str, Entry] = {}
    for number, item in enumerate(whole["models"]):
        entry = _Reader(item, f"{path}: models[{number}]").entry()
        if entry.name in entries:
            raise FormatError(f"{path}: models[{number}]: there are two models called {entry.name}")
        entries[entry.name] = entry
    return entries


def chosen(entries: Dict[str, Entry], name: str) -> Entry:
    """One model. UsageError, with similar names, if none has this name."""
    if name not in entries:
        near = suggestion(name, entries) or ";"
        raise UsageError(f"no model is called {name!r}{near} armnet models lists them all")
    return entries[name]


class _Reader:
    """Reads the fields of one object, and says where something is wrong."""

    def __init__(self, item: Any, place: str):
        if not isinstance(item, dict):
            raise FormatError(f"{place} must be an object")
        self._item, self._place = item, place

    def _fail(self, key: str, wanted: str) -> FormatError:
        return FormatError(f"{self._place}.{key} must be {wanted}")

    def text(self, key: str, pattern: Optional[re.Pattern[str]] = None) -> str:
        value = self._item.get(key)
        if not isinstance(value, str) or not value or (pattern is not None and not pattern.fullmatch(value)):
            raise self._fail(key, "text" if pattern is None else f"like {pattern.pattern}")
        return value

    def listed(self, key: str) -> List[Any]:
        value = self._item.get(key)
        if not isinstance(value, list) or not value:
            raise self._fail(key, "a list that is not empty")
        return value

    def entry(self) -> Entry:
        files = [_Reader(one, f"{self._place}.files[{at}]").file() for at, one in enumerate(self.listed("files"))]
        if len({file.name for file in files}) < len(files):
            raise self._fail("files", "of different names")
        accuracy, labels = self._item.get("accuracy"), self._item.get("labels")
        if accuracy is not None and not isinstance(accuracy, str):
            raise self._fail("accuracy", "text or null")
        if isinstance(labels, dict):
            labels = _Reader(labels, f"{self._place}.labels").file()
        elif labels is not None and not (isinstance(labels, list) and all(isinstance(one, str) for one in labels)):
            raise self._fail("labels", "a file, a list of names or null")
        rule = self._item.get("preprocessing")
        if rule is not None and not isinstance(rule, (str, dict)):
            raise self._fail("preprocessing", "a rule or null")
        texts = {key: self.text(key) for key in ("what", "task", "licence", "source")}
        return Entry(
            self.text("name", _NAME), **texts, files=files, accuracy=accuracy, preprocessing=rule, labels=labels
        )

    def file(self) -> RemoteFile:
        nbytes, urls = self._item.get("nbytes"), self.listed("urls")
        if not isinstance(nbytes, int) or isinstance(nbytes, bool) or not 0 < nbytes <= _MOST_NBYTES:
            raise self._fail("nbytes", f"a number of bytes up to {_MOST_NBYTES}")
        if not all(isinstance(url, str) for url in urls):
            raise self._fail("urls", "a list of addresses")
        return RemoteFile(self.text("name", _NAME), urls, self.text("sha256", _HASH), nbytes)
