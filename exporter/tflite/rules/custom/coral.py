"""Coral's custom operators: PosenetDecoderOp."""

from __future__ import annotations

import numpy as np

from exporter.tflite.flexbuffer import read_map
from exporter.tflite.node import Node
from exporter.tflite.rules import custom_type, quantised_rule, rule
from runtime_arm.errors import ExportError

_OPTIONS = ("max_detections", "score_threshold", "stride", "nms_radius")


@rule(custom_type("PosenetDecoderOp"))
@quantised_rule(custom_type("PosenetDecoderOp"))
def posenet_decoder(node: Node) -> None:
    """Inputs: scores, short, mid and perhaps long offsets, floats or integers. Offsets become units of the stride."""
    given = read_map(node.operation.custom_options)
    missing = [name for name in _OPTIONS if name not in given]
    if missing:
        raise ExportError(f"its options lack {missing[0]!r}")
    stride = int(given["stride"])
    if stride < 1:
        raise ExportError(f"the stride must be positive, it is {stride}")
    shares = [np.float32(1), *[np.float32(1 / stride)] * (node.input_count - 1)]
    node.add(
        "PosenetDecoder",
        [_real(node, index, share) for index, share in enumerate(shares)],
        [node.output(index) for index in range(node.output_count)],
        domain="tflite",
        max_detections=int(given["max_detections"]),
        score_threshold=float(given["score_threshold"]),
        stride=stride,
        nms_radius=float(given["nms_radius"]),
    )


def _real(node: Node, index: int, share: np.float32) -> str:
    """This share of an input, as floats."""
    floats = node.between("real")
    if node.dtype(index).kind == "f":
        if share == 1:
            return node.input(index)
        node.add("Mul", [node.input(index), node.constant("share", share)], [floats])
        return floats
    scale, zero_point = node.scale(index)
    whole = float(np.float32(scale) * share)
    node.add("Dequantize", [node.input(index)], [floats], domain="tflite", X_scale=whole, X_zero_point=zero_point)
    return floats
