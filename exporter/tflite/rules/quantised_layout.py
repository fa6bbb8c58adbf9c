"""Quantised operators that move elements, reduce or resize."""

from __future__ import annotations

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import quantised_rule, reduction
from exporter.tflite.rules.layout import padded
from exporter.tflite.rules.quantised import DOMAIN, of_input, of_output
from exporter.tflite.rules.resize import new_size
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import number_of


@quantised_rule("CONCATENATION")
def concatenation(node: Node) -> None:
    """uint8 operands whose scale differs from the output's are requantised, int16 ones are taken as they are."""
    if node.option("fused_activation_function") != 0:
        raise ExportError("a fused activation is not supported on quantised tensors")
    rank = node.known_rank(0)
    names = [_at_scale_of_output(node, index) for index in range(node.input_count)]
    node.add(
        "Concat", names, [node.output(), node.between("split_info")], axis=node.axis(node.option("axis"), False, rank)
    )


def _at_scale_of_output(node: Node, index: int) -> str:
    if node.scale(index) == node.result_scale() or node.dtype(index) == np.int16:
        return node.input(index)
    if node.dtype(index) != np.uint8:
        raise ExportError(f"operand {node.tensor(index).name!r} must have the output's scale and zero point")
    scaled = node.between("scaled")
    node.add("RescaleOperand", [node.input(index)], [scaled], domain=DOMAIN, **of_input(node, index), **of_output(node))
    return scaled


@quantised_rule("PAD")
def pad(node: Node) -> None:
    """Pads with the zero point."""
    padded(node, node.constant("zero", np.asarray(node.result_scale()[1], node.dtype(0))))


@quantised_rule("PADV2")
def pad_v2(node: Node) -> None:
    padded(node, node.input(2))


_REDUCTIONS = {"MEAN": "QuantizedMean", "SUM": "QuantizedSum", "REDUCE_PROD": "QuantizedProd"}


@quantised_rule(*_REDUCTIONS)
def reduced(node: Node) -> None:
    node.add(
        _REDUCTIONS[node.type],
        [node.input(0)],
        [node.output()],
        domain=DOMAIN,
        axes=reduction.axes_of(node),
        keepdims=int(reduction.keeps(node)),
        **of_input(node, 0),
        **of_output(node),
    )


quantised_rule("REDUCE_MAX", "REDUCE_MIN")(reduction.reduce)


@quantised_rule("RESIZE_BILINEAR")
def resize_bilinear(node: Node) -> None:
    new_size(node)
    corners, halves = (int(node.option(name, False)) for name in ("align_corners", "half_pixel_centers"))
    node.add(
        "QuantizedResizeBilinear",
        [node.input(0), node.input(1)],
        [node.output()],
        domain=DOMAIN,
        align_corners=corners,
        half_pixel_centers=halves,
    )


@quantised_rule("LOG_SOFTMAX")
def log_softmax(node: Node) -> None:
    node.add("QuantizedLogSoftmax", [node.input(0)], [node.output()], domain=DOMAIN, **of_input(node, 0))


@quantised_rule("L2_NORMALIZATION")
def l2_normalization(node: Node) -> None:
    if node.option("fused_activation_function") != 0:
        raise ExportError("a fused activation is not supported on quantised tensors")
    node.add("QuantizedL2Normalize", [node.input(0)], [node.output()], domain=DOMAIN, **of_input(node, 0))


@quantised_rule("SOFTMAX")
def softmax(node: Node) -> None:
    node.add(
        "QuantizedSoftmax",
        [node.input(0)],
        [node.output()],
        domain=DOMAIN,
        beta=float(node.option("beta")),
        to=number_of(node.result_dtype()),
        **of_input(node, 0),
    )
