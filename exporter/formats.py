"""The source formats: the files that make up a model of each, and the functions that export, inspect and run it.

A format's modules are imported when a model of that format is given: each format needs packages of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Container, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from exporter.common.options import ExportOptions
from exporter.common.original_run import OriginalRun
from exporter.common.source import FileOrBytes, InMemory
from exporter.common.support_rows import Support
from exporter.foreign import refuse_foreign
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair

if TYPE_CHECKING:
    from onnx import ModelProto

Source = Union[FileOrBytes, "ModelProto"]
Sources = Sequence[Source]
Feeds = Mapping[str, Array]
Blobs = Optional[Container[str]]  # those that are wanted, all if None


class Format(NamedTuple):
    """A source format and what can be done with a model of it, given as its files in any order.

    files: what a user passes, for messages. suffixes: the suffixes of the files of one model, sorted, in every
    combination that is allowed. magic: the bytes at offset 4 by which a file with an unknown suffix is recognised.
    """

    files: str
    suffixes: Tuple[Tuple[str, ...], ...]
    export: Callable[[Sources, ExportOptions], Pair]
    support: Callable[[Sources, ExportOptions], List[Support]]
    run_original: Callable[[Sequence[AnyPath], Feeds, Blobs], OriginalRun]
    magic: Optional[bytes] = None


def format_of(sources: Sources, task: str) -> Format:
    """The format of the model in these files. UsageError, saying what the task takes, if together they are not a model;
    FormatError for a file that is known to be something else (see ``foreign.py``).
    """
    for source in sources:
        if isinstance(source, (str, os.PathLike)):
            refuse_foreign(Path(source))
    suffixes = tuple(sorted(map(_suffix, sources)))
    for row in FORMATS:
        if suffixes in row.suffixes:
            return row
    for source in sources:
        if isinstance(source, (str, os.PathLike)) and not os.path.exists(source):
            raise UsageError(f"{os.fspath(source)}: no such file")
    names = " ".join(map(_name, sources)) or "nothing"
    *others, last = [row.files for row in FORMATS]
    raise UsageError(f"cannot {task} {names}: give {', '.join(others)}, or {last}")


def _name(source: Source) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else f"a {type(source).__name__}"


def _suffix(source: Source) -> str:
    """The suffix of a file; if no format has it, the suffix of the format that the content has."""
    if isinstance(source, InMemory):
        return _suffix_of(bytes(source[4:8])) or ".onnx"
    if not isinstance(source, (str, os.PathLike)):
        return ".onnx"
    path = Path(source)
    suffix = path.suffix.lower()
    if not any(suffix in known for row in FORMATS for known in row.suffixes) and path.is_file():
        return _suffix_of(bytes(map_file(path)[4:8])) or suffix
    return suffix


def _suffix_of(magic: bytes) -> str:
    """The suffix of the format that has these bytes at offset 4; "" if none has."""
    return next((row.suffixes[0][0] for row in FORMATS if row.magic == magic), "")


def _export_onnx(sources: Sources, options: ExportOptions) -> Pair:
    with needed_for("exporting ONNX"):
        from exporter.onnx.export import from_onnx

        return from_onnx(sources[0], options)


def _support_onnx(sources: Sources, options: ExportOptions) -> List[Support]:
    with needed_for("reading ONNX"):
        from exporter.onnx.support import onnx_support

        return onnx_support(sources[0], options)


def _run_onnx(paths: Sequence[AnyPath], feeds: Feeds, blobs: Blobs) -> OriginalRun:
    with needed_for("comparing ONNX"):
        from exporter.onnx.original_run import run_onnx

        return run_onnx(paths[0], feeds, blobs)


def _export_tflite(sources: Sources, options: ExportOptions) -> Pair:
    with needed_for("exporting TFLite"):
        from exporter.tflite.export import from_tflite

        return from_tflite(_path_or_bytes(sources[0]), options)


def _support_tflite(sources: Sources, options: ExportOptions) -> List[Support]:
    with needed_for("reading TFLite"):
        from exporter.tflite.support import tflite_support

        return tflite_support(_path_or_bytes(sources[0]), options)


def _run_tflite(paths: Sequence[AnyPath], feeds: Feeds, blobs: Blobs) -> OriginalRun:
    with needed_for("comparing TFLite"):
        from exporter.tflite.original_run import run_tflite

        return run_tflite(paths[0], feeds)


def _export_caffe(sources: Sources, options: ExportOptions) -> Pair:
    from exporter.caffe.export import from_caffe

    return from_caffe(*_prototxt_first(sources), options=options)


def _support_caffe(sources: Sources, options: ExportOptions) -> List[Support]:
    from exporter.caffe.support import caffe_support

    return caffe_support(*_prototxt_first(sources), options=options)


def _run_caffe(paths: Sequence[AnyPath], feeds: Feeds, blobs: Blobs) -> OriginalRun:
    from exporter.caffe.original_run import run_caffe

    return run_caffe(*_prototxt_first(paths), feeds=feeds)


def _export_caffe2(sources: Sources, options: ExportOptions) -> Pair:
    from exporter.caffe2.export import from_caffe2

    return from_caffe2(*_both_nets(sources), options)


def _support_caffe2(sources: Sources, options: ExportOptions) -> List[Support]:
    from exporter.caffe2.support import caffe2_support

    return caffe2_support([_path(source) for source in sources], options)


def _run_caffe2(paths: Sequence[AnyPath], feeds: Feeds, blobs: Blobs) -> OriginalRun:
    from exporter.caffe2.original_run import run_caffe2

    return run_caffe2(*_both_nets(paths), feeds)


def _path(source: Source) -> AnyPath:
    """A source of a format that can only be given as files."""
    assert isinstance(source, (str, os.PathLike))
    return source


def _path_or_bytes(source: Source) -> FileOrBytes:
    """A source of a format that can be given as files or as bytes in memory."""
    assert isinstance(source, (str, os.PathLike, *InMemory))
    return source


def _prototxt_first(sources: Sources) -> List[AnyPath]:
    """A .prototxt, and the .caffemodel if there is one."""
    return sorted(map(_path, sources), key=_suffix, reverse=True)


def _both_nets(sources: Sources) -> Tuple[AnyPath, AnyPath]:
    """The two files of a Caffe2 network."""
    if len(sources) != 2:
        raise UsageError(f"{_name(sources[0])} is one of two nets: give init_net.pb and predict_net.pb")
    first, second = map(_path, sources)
    return first, second


FORMATS = (
    Format("an .onnx file", ((".onnx",),), _export_onnx, _support_onnx, _run_onnx),
    Format("a .tflite file", ((".tflite",),), _export_tflite, _support_tflite, _run_tflite, magic=b"TFL3"),
    Format(
        "a .prototxt and its .caffemodel",
        ((".prototxt",), (".caffemodel", ".prototxt")),
        _export_caffe,
        _support_caffe,
        _run_caffe,
    ),
    Format(
        "init_net.pb and predict_net.pb",
        ((".pb",), (".pbtxt",), (".pb", ".pb"), (".pb", ".pbtxt"), (".pbtxt", ".pbtxt")),
        _export_caffe2,
        _support_caffe2,
        _run_caffe2,
    ),
)
