"""Which operators of an ONNX model can be translated."""

from __future__ import annotations

from typing import Any, List

from exporter.common.options import ExportOptions
from exporter.common.source import naming
from exporter.common.support_rows import Findings, Support
from exporter.onnx.export import pair_of
from exporter.onnx.functions import Functions
from exporter.onnx.protos import NodeProto
from exporter.onnx.reader import graph_of, open_onnx


def onnx_support(source: Any, options: ExportOptions) -> List[Support]:
    """One row per operator type, inner graphs included; the model's own functions are counted by their contents."""
    file, findings = open_onnx(source), Findings()
    with naming(file.source), findings.trial():
        functions = Functions(file.model)
        findings.count(map(_full_type, functions.every_node(graph_of(file))))
        pair_of(file, functions, options, lambda node, problem: findings.note(_full_type(node), problem))
    return findings.rows()


def _full_type(node: NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
