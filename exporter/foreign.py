"""Recognises files that hold no model for armnet, and says what they are and what to do with them.

It looks only at names of files, first bytes and the names in an archive. Nothing is unpickled: a pickle runs any code
that its author put into it.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional

from runtime_arm.errors import FormatError
from runtime_arm.pair.archive import PAIR_FOLDER
from runtime_arm.pair.metadata import MODEL
from runtime_arm.pair.places import is_pair

HEAD = 4096  # bytes read to recognise a file


class Foreign(NamedTuple):
    """A kind of file: its name, a test of a file's first bytes, and what to do with such a file."""

    name: str
    begins: Callable[[bytes], bool]
    advice: str


def _starts(*prefixes: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(prefixes)


def _is_page(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \r\n\t").lower().startswith((b"<!doctype html", b"<html"))


def _is_pickle(head: bytes) -> bool:
    return head[:1] == b"\x80" and 2 <= head[1:2][0] <= 5 if len(head) > 1 else False


def _is_safetensors(head: bytes) -> bool:
    return head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 27


_HDF5 = b"\x89HDF\r\n"
PAIR = "the other commands take it as it is, and armnet export --to onnx, tflite or caffe2 writes it in another format"
TENSORFLOW = "armnet converts it where TensorFlow is installed: pip install tensorflow"
TORCH_PACKAGES = "pip install torch onnxscript"
TORCH = "export it where PyTorch runs: torch.onnx.export(model, example, 'model.onnx')"
KINDS = (
    Foreign("a Git LFS pointer", _starts(b"version https://git-lfs"), "fetch the model itself: git lfs pull"),
    Foreign(
        "a web page",
        _is_page,
        "download the file again: the server sent a page instead",
    ),
    Foreign(
        "an onnxruntime .ort file",
        lambda head: head[4:8] == b"ORTM",
        "export the .onnx file that it was made of",
    ),
    Foreign(
        "a pickle",
        _is_pickle,
        "armnet never opens pickles, for they run code; write the model as ONNX where it was made, with skl2onnx for "
        "scikit-learn or torch.onnx.export for PyTorch",
    ),
    Foreign("a safetensors file", _is_safetensors, f"it holds weights without a network; {TORCH}"),
    Foreign("a GGUF file", _starts(b"GGUF"), "llama.cpp runs it; armnet needs an ONNX export of the model"),
    Foreign(
        "an HDF5 file",
        _starts(_HDF5),
        f"if it is a Keras model: {TENSORFLOW}; Caffe weights have to be a .caffemodel",
    ),
    Foreign("an OpenVINO network", _starts(b"<?xml"), "export the model that it was made of"),
    Foreign("an ncnn network", _starts(b"7767517"), "export the model that it was made of"),
)
SUFFIXES = {
    ".mlmodel": "a Core ML model; export the model that it was made of",
    ".mlpackage": "a Core ML package; export the model that it was made of",
    ".engine": "a TensorRT engine; export the .onnx file that it was made of",
}


def refuse_foreign(path: Path) -> None:
    """FormatError, with what to do, if the file or folder is known to hold no model for armnet."""
    found = _described(path)
    if found is not None:
        raise FormatError(f"{os.fspath(path)} is {found}")


def _described(path: Path) -> Optional[str]:
    if path.suffix.lower() in SUFFIXES and path.exists():
        return SUFFIXES[path.suffix.lower()]
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        return None
    head = head_of(path)
    if not head:
        return "an empty file"
    if head.startswith(b"PK\x03\x04"):
        return _archive(path)
    if head.startswith(b"#!") and f"{PAIR_FOLDER}/{MODEL}" in (_names(path) or ()):
        return f"a bundle, which holds a pair already; {PAIR}"
    kind = next((kind for kind in KINDS if kind.begins(head)), None)
    return kind and f"{kind.name}; {kind.advice}"


def _folder(path: Path) -> str:
    """What a folder is: the names of a model's files say so."""
    if is_saved_model(path):
        return f"a TensorFlow SavedModel; {TENSORFLOW}"
    if is_pair(path):
        return f"a pair already; {PAIR}"
    return "a folder; name the file of a model in it"


def head_of(path: Path) -> bytes:
    """The first bytes of a file."""
    with open(path, "rb") as file:
        return file.read(HEAD)


def is_saved_model(path: Path) -> bool:
    """Whether a folder is a SavedModel of TensorFlow."""
    return path.is_dir() and (path / "saved_model.pb").is_file()


def is_program(path: Path) -> bool:
    """Whether a file is one that torch.export.save wrote."""
    return any(name.endswith("archive_format") for name in _names(path) or ())


def is_keras(path: Path, head: bytes) -> bool:
    """Whether a file is a model of Keras, or an HDF5 file that may be one."""
    names = _names(path) or []
    zipped = "config.json" in names and any(name.endswith(".weights.h5") for name in names)
    return head.startswith(_HDF5) or zipped


def _names(path: Path) -> Optional[List[str]]:
    """The names in a zip archive; None if the file is not one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return None


def _archive(path: Path) -> str:
    """What a zip archive is, judged by the names in it."""
    names = _names(path)
    if names is None:
        return "a damaged zip archive; download the file again"
    if is_pair(path):
        return f"a pair already; {PAIR}"
    if is_program(path):
        return f"a torch.export archive (.pt2); armnet reads it where PyTorch is installed: {TORCH_PACKAGES}"
    if any(name.endswith("/data.pkl") for name in names):
        return f"a PyTorch file, which holds pickles that armnet never opens; {TORCH}"
    if is_keras(path, b""):
        return f"a Keras model; {TENSORFLOW}"
    return f"a zip archive without a model: {_listed(names)}"


def _listed(names: List[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
