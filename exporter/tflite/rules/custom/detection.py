"""TensorFlow's detections: TFLite_Detection_PostProcess."""

from __future__ import annotations

from typing import Any, Dict

from exporter.tflite.flexbuffer import read_map
from exporter.tflite.node import Node
from exporter.tflite.rules import custom_type, quantised_rule, rule
from runtime_arm.errors import ExportError

_REQUIRED = (
    "max_detections",
    "max_classes_per_detection",
    "num_classes",
    "nms_score_threshold",
    "nms_iou_threshold",
    "y_scale",
    "x_scale",
    "h_scale",
    "w_scale",
)
_INTEGERS = ("max_detections", "max_classes_per_detection", "num_classes", "detections_per_class")


@rule(custom_type("TFLite_Detection_PostProcess"))
@quantised_rule(custom_type("TFLite_Detection_PostProcess"))
def detection_post_process(node: Node) -> None:
    """Quantised boxes, scores and anchors are dequantised first."""
    given = read_map(node.operation.custom_options)
    missing = [name for name in _REQUIRED if name not in given]
    if missing:
        raise ExportError(f"its options lack {missing[0]!r}")
    names = [*_REQUIRED, "detections_per_class", "use_regular_nms"]
    arguments: Dict[str, Any] = {
        name: int(given[name]) if name in _INTEGERS else given[name] for name in names if name in given
    }
    inputs = [_real(node, index) for index in range(3)]
    outputs = [node.output(index) for index in range(node.output_count)]
    node.add("DetectionPostProcess", inputs, outputs, domain="tflite", **arguments)


def _real(node: Node, index: int) -> str:
    if node.dtype(index).kind == "f":
        return node.input(index)
    scale, zero_point = node.scale(index)
    floats = node.between("float")
    node.add("Dequantize", [node.input(index)], [floats], domain="tflite", X_scale=scale, X_zero_point=zero_point)
    return floats
