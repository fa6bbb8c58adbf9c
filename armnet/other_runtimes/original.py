"""The model that the other runtimes run."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Optional, Tuple

from exporter.onnx.signature import Signature, read_signature
from runtime_arm import Pair
from runtime_arm.errors import ExportError, UsageError


class Original:
    """The model that a pair was made from: given, or found by the name and the hash that the pair records."""

    def __init__(self, pair: Pair, folder: Path, model: Optional[str] = None):
        self.pair = pair
        self._path = Path(model) if model is not None else _recorded(pair, folder)
        if model is not None and not Path(model).is_file():
            raise UsageError(f"{model}: no such file")

    @property
    def is_tflite(self) -> bool:
        """Whether it is a .tflite file that is there."""
        return self._path is not None and self._path.suffix == ".tflite"

    def onnx(self) -> Tuple[str, Any]:
        """A text that says where the model comes from, and the model: a path, or bytes."""
        if self._path is not None and self._path.suffix == ".onnx":
            return self._path.name, os.fspath(self._path)
        from exporter.to_onnx.export import to_onnx

        return "the pair as ONNX", to_onnx(self.pair).SerializeToString()

    def tflite(self) -> Tuple[str, bytes]:
        """A text that says where the model comes from, and the model."""
        if self.is_tflite and self._path is not None:
            return self._path.name, self._path.read_bytes()
        from exporter.to_tflite.export import to_tflite

        return "the pair as TFLite", to_tflite(self.pair)

    def onnx_file(self, folder: Path) -> Tuple[str, Path, Signature]:
        """A text that says where the model comes from, its file (written to the folder if there is none), and its
        inputs and outputs.
        """
        where, model = self.onnx()
        path = folder / "model.onnx" if isinstance(model, bytes) else Path(model)
        if isinstance(model, bytes):
            path.write_bytes(model)
        signature = read_signature(path.read_bytes(), where)
        if signature is None:
            raise ExportError(f"{where} has no graph")
        return where, path, signature


def _recorded(pair: Pair, folder: Path) -> Optional[Path]:
    """The source that the pair names, if it lies beside the pair or in the current folder."""
    source = pair.meta.get("source") or {}
    name, wanted = source.get("name"), source.get("sha256")
    for place in (folder, folder.parent, Path()) if name and wanted else ():
        path = place / str(name)
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            return path
    return None
