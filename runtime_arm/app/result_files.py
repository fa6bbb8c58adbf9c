"""Writes results to files as they come: .jsonl, .csv, and .npz for the outputs; in bounded memory."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
import zipfile
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np
from numpy.lib import format as npy_format

from runtime_arm.errors import UsageError
from runtime_arm.files import one_line_errors, write_file
from runtime_arm.netdef import Array
from runtime_arm.results.result import Result

COLUMNS = ("input", "kind", "label", "index", "score", "x0", "y0", "x1", "y1", "start", "end", "value")
_CHUNK = 1 << 20
_LISTS = {"classes": "classes", "boxes": "boxes", "mask": "regions", "keypoints": "points", "sound events": "events"}


class Sink:
    """A file that takes results one after the other and appears, whole, when the block ends."""

    def __init__(self, path: str):
        self.path = path
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise UsageError(f"{path}: there is no folder {os.path.dirname(path)!r}")
        self._folder = tempfile.mkdtemp(prefix="armnet-results-")

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None or issubclass(kind, KeyboardInterrupt):
                self.finish()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def write(self, name: str, results: Sequence[Result], outputs: Mapping[str, Array]) -> None:
        """Takes the results of one input and its outputs."""
        raise NotImplementedError

    def finish(self) -> None:
        """Writes the file."""
        raise NotImplementedError


class Lines(Sink):
    """A text file, to which each result adds lines."""

    def __init__(self, path: str, head: str = ""):
        super().__init__(path)
        self._file = open(os.path.join(self._folder, "lines"), "w+", encoding="utf-8", newline="")  # noqa: SIM115
        self._file.write(head)

    def finish(self) -> None:
        self._file.flush()
        write_file(self.path, _chunks(self._file.name))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._file.close()


class JsonLines(Lines):
    """.jsonl: an object a line, {"input": ..., "kind": ..., ...}."""

    def write(self, name: str, results: Sequence[Result], outputs: Mapping[str, Array]) -> None:
        for item, result in enumerate(results):
            number = {"item": item} if len(results) > 1 else {}
            self._file.write(json.dumps({"input": name, **number, **result.to_dict()}) + "\n")


class Table(Lines):
    """.csv: a line for each thing that was found, with ``COLUMNS``."""

    def __init__(self, path: str):
        super().__init__(path, ",".join(COLUMNS) + "\r\n")

    def write(self, name: str, results: Sequence[Result], outputs: Mapping[str, Array]) -> None:
        text = io.StringIO()
        rows = csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore")
        for result in results:
            for row in rows_of(result):
                rows.writerow({"input": name, "kind": result.kind, **row})
        self._file.write(text.getvalue())


def rows_of(result: Result) -> Iterator[Dict[str, Any]]:
    """The things in a result as rows of a table."""
    facts = result.to_dict()
    for thing in facts.get(_LISTS.get(result.kind, ""), [facts]):
        row = dict(thing)
        row.update(zip(("x0", "y0", "x1", "y1"), row.pop("box", row.get("point", ()))))
        row.setdefault("label", row.get("name", ""))
        row.setdefault("score", row.get("share", ""))
        row.setdefault("value", row.get("text", ""))
        yield {key: "" if value is None else value for key, value in row.items()}


class Stacked(Sink):
    """.npz: the outputs by name, those of several inputs stacked."""

    def __init__(self, path: str):
        super().__init__(path)
        self._kinds: Dict[str, Tuple[Tuple[int, ...], Any]] = {}
        self._count = 0

    def write(self, name: str, results: Sequence[Result], outputs: Mapping[str, Array]) -> None:
        for place, (key, value) in enumerate(outputs.items()):
            value = value.astype(str) if value.dtype == object else value
            kind = (value.shape, value.dtype)
            if self._kinds.setdefault(key, kind) != kind:
                raise UsageError(
                    f"the shape of output {key!r} differs between runs, so they cannot be stacked in one file; "
                    "give one input at a time, or write .jsonl"
                )
            with one_line_errors(self.path), open(self._part(place), "ab") as file:
                file.write(np.ascontiguousarray(value).tobytes())
        self._count += 1

    def finish(self) -> None:
        whole = os.path.join(self._folder, "whole")
        with one_line_errors(self.path), zipfile.ZipFile(whole, "w", allowZip64=True) as archive:
            for place, (key, (shape, dtype)) in enumerate(self._kinds.items()):
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    stacked = shape if self._count == 1 else (self._count, *shape)
                    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": stacked}
                    npy_format.write_array_header_1_0(member, header)
                    for chunk in _chunks(self._part(place)):
                        member.write(chunk)
        write_file(self.path, _chunks(whole))

    def _part(self, place: int) -> str:
        return os.path.join(self._folder, f"{place}")


def write_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by name as an .npz, which appears whole or not at all."""
    content = io.BytesIO()
    named: Dict[str, Any] = dict(arrays)
    np.savez(content, **named)
    write_file(path, [content.getbuffer()])


def _chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                return
            yield chunk


_SINKS = {".npz": Stacked, ".jsonl": JsonLines, ".csv": Table}


def sink_of(path: str) -> Sink:
    """The file of that name; its suffix decides its format, .npz for names without one."""
    suffix = os.path.splitext(path)[1].lower()
    kind: Optional[Any] = _SINKS.get(suffix)
    if kind is None and suffix[1:].isalpha():
        raise UsageError(f"{path}: results are written as {', '.join(_SINKS)}")
    sink: Sink = (kind or Stacked)(path)
    return sink
