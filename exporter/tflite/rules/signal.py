"""Spectra. A complex tensor is a blob of floats whose last dimension holds the real and the imaginary part."""

from __future__ import annotations

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import rule
from runtime_arm.errors import ExportError


@rule("RFFT2D", complex=True)
def rfft2d(node: Node) -> None:
    """The spectrum of the last two dimensions, cropped or zero-padded to the lengths in the second input."""
    lengths, rank = node.constant_integers(1), node.known_rank(0)
    if lengths is None or len(lengths) != 2 or min(lengths) < 1 or rank < 2:
        raise ExportError(f"takes two constant lengths, got {lengths}")
    real, rows, spectrum = (node.between(stem) for stem in ("real", "rows", "spectrum"))
    node.add("ExpandDims", [node.input(0)], [real], dims=[rank])
    names = [
        [node.constant(stem, np.array(number, np.int64)) for stem, number in (("length", length), ("axis", axis))]
        for length, axis in ((lengths[1], rank - 1), (lengths[0], rank - 2))
    ]
    node.add("DFT", [real, *names[0]], [rows], domain="onnx", onesided=1)
    node.add("DFT", [rows, *names[1]], [spectrum], domain="onnx")
    node.alias(0, spectrum)


@rule("COMPLEX_ABS", complex=True)
def complex_abs(node: Node) -> None:
    node.add("ReduceL2", [node.input(0)], [node.output()], axes=[_parts(node)], keepdims=0)


@rule("REAL", "IMAG", complex=True)
def part(node: Node) -> None:
    axis, place, cut = _parts(node), int(node.type == "IMAG"), node.between("part")
    rows = {"starts": place, "ends": place + 1, "axes": axis}
    names = [node.constant(stem, np.array([number], np.int64)) for stem, number in rows.items()]
    node.add("Slice", [node.input(0), *names], [cut], domain="onnx")
    node.add("Squeeze", [cut], [node.output()], dims=[axis])


def _parts(node: Node) -> int:
    """The dimension that holds the two parts."""
    dims = node.net.dims(node.input(0))
    if dims is None or not dims or dims[-1] != 2:
        raise ExportError(f"tensor {node.tensor(0).name!r} is not a spectrum of known rank")
    return len(dims) - 1
