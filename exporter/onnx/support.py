"""Which operators of an ONNX model can be translated."""

from __future__ import annotations

from typing import List

import onnx

from exporter.common.options import ExportOptions
from exporter.common.source import naming
from exporter.common.support_rows import Findings, Support
from exporter.onnx.export import pair_of, prepared
from exporter.onnx.reader import Source, open_onnx
from exporter.onnx.structure import every_node


def onnx_support(source: Source, options: ExportOptions) -> List[Support]:
    """One row per operator type, inner graphs included; the model's own functions are counted by their contents."""
    file, findings = open_onnx(source), Findings()
    with naming(file.source), findings.trial():
        model = prepared(file)
        findings.count(map(_full_type, every_node(model.graph)))
        pair_of(file, model, options, lambda node, problem: findings.note(_full_type(node), problem))
    return findings.rows()


def _full_type(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
