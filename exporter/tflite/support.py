"""Which operators of a TFLite model can be translated."""

from __future__ import annotations

from typing import List

from exporter.common.options import ExportOptions
from exporter.common.source import FileOrBytes, naming
from exporter.common.support_rows import Findings, Support
from exporter.tflite.export import graph_of, pair_of
from exporter.tflite.reader import open_tflite


def tflite_support(source: FileOrBytes, options: ExportOptions) -> List[Support]:
    """One row per operator type, over all graphs of the file."""
    file, findings = open_tflite(source), Findings()
    findings.count(operation.title for graph in file.graphs for operation in graph.operations)
    with naming(file.source), findings.trial():
        graph = graph_of(file, options.signature)
        pair_of(file, graph, options, lambda operation, problem: findings.note(operation.title, problem))
    return findings.rows()
