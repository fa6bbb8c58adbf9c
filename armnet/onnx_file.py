"""Writes pairs as ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, List, Mapping, Optional, Sequence

from runtime_arm.imports import needed_for
from runtime_arm.pair.argument import require_pair

if TYPE_CHECKING:
    from runtime_arm.files import AnyPath
    from runtime_arm.pair.pair import Pair


def save_onnx(
    pair: Pair, path: AnyPath, *, shapes: Optional[Mapping[str, Sequence[int]]] = None, integers: str = "qdq"
) -> List[Path]:
    """Writes a pair, optimised or not, as an ONNX model; returns the files, which appear whole or not at all.

    Weights beyond 2 GB go to a second file, ``<path>.data``. shapes: those of inputs for which the pair declares none.
    integers: TFLite's operators on integers are written as ONNX's tools do, "qdq", with results that may be one step of
    their scale off, or "exact", with many nodes for each. ExportError or OperatorError, naming the operator, if ONNX
    cannot express it; MissingDependency without onnx.

    Examples:
        >>> import armnet
        >>> [path.name for path in armnet.save_onnx(armnet.export("demo/digits.onnx"), "again.onnx")]
        ['again.onnx']
    """
    require_pair(pair, "save_onnx")
    with needed_for("writing ONNX"):
        from exporter.to_onnx.export import save_onnx as save
    return save(pair, path, shapes=shapes, integers=integers)
