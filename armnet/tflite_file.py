"""Writes pairs as TFLite files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, List, Mapping, Optional, Sequence

from runtime_arm.imports import needed_for
from runtime_arm.pair.argument import require_pair

if TYPE_CHECKING:
    from runtime_arm.files import AnyPath
    from runtime_arm.pair.pair import Pair


def save_tflite(pair: Pair, path: AnyPath, *, shapes: Optional[Mapping[str, Sequence[int]]] = None) -> List[Path]:
    """Writes a pair, optimised, quantised or plain, as a TFLite model; returns the file, which appears whole or not.

    Pictures have their channels last there. shapes: those of inputs whose sizes are open; a batch that is open is 1.
    ExportError or OperatorError, naming the operator, if TFLite has no operators for it; MissingDependency without
    tflite and flatbuffers.

    Examples:
        >>> import armnet
        >>> [path.name for path in armnet.save_tflite(armnet.export("demo/digits.onnx"), "digits.tflite")]
        ['digits.tflite']
    """
    require_pair(pair, "save_tflite")
    with needed_for("writing TFLite"):
        from exporter.to_tflite.export import save_tflite as save

        return save(pair, path, shapes=shapes)
