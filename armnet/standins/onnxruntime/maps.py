"""Outputs that are lists of dictionaries: tabular models give the score of each class by its label.

The pair has the scores as a matrix, (N, classes); the operator ZipMap of the model says which column is whose.
"""

from __future__ import annotations

from typing import Any, Dict, List, Union

from exporter.onnx.signature import Signature
from runtime_arm.netdef import Array

Labels = List[Union[int, str]]


def labels_of_maps(source: Union[str, bytes], signature: Signature) -> Dict[str, Labels]:
    """The labels of the columns for each output that is a list of dictionaries."""
    names = {value.name for value in signature.outputs if value.type.startswith("seq(map(")}
    if not names:
        return {}
    from exporter.onnx.reader import graph_of, open_onnx

    found: Dict[str, Labels] = {}
    for node in graph_of(open_onnx(source)).node:
        if node.op_type == "ZipMap" and node.output[0] in names:
            found[node.output[0]] = [
                item.decode() if isinstance(item, bytes) else int(item)
                for attribute in node.attribute
                for item in [*attribute.strings, *attribute.ints]
            ]
    return found


def as_maps(scores: Array, labels: Labels) -> List[Dict[Union[int, str], Any]]:
    """``[{"cat": 0.9, "dog": 0.1}, ...]``, one for each row."""
    return [dict(zip(labels, row)) for row in scores.tolist()]
