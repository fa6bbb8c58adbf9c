"""Spectra. A complex tensor is a blob of floats whose last dimension holds the real and the imaginary part.

So a rule with ``complex=True`` that counts dimensions from the front serves complex tensors as it is; the others are
here.
"""

from __future__ import annotations

from typing import List

import numpy as np

from exporter.tflite.node import Node
from exporter.tflite.rules import complex_rule, rule
from exporter.tflite.rules.layout import define, integers, ranked_by_length, reshaped
from runtime_arm.errors import ExportError
from runtime_arm.netdef.dtypes import BOOL, FLOAT, INT32, INT64, number_of

_PARTS = 2


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
    node.add("ReduceL2", [node.input(0)], [node.output()], axes=[_parts(node, 0)], keepdims=0)


@rule("REAL", "IMAG", complex=True)
def part(node: Node) -> None:
    axis, cut = _parts(node, 0), _one_part(node, 0, int(node.type == "IMAG"))
    node.add("Squeeze", [cut], [node.output()], dims=[axis])


def _parts(node: Node, index: int) -> int:
    """The dimension of an input's blob that holds the two parts."""
    dims = node.net.dims(node.input(index))
    if dims is None or not dims or dims[-1] not in (None, _PARTS):
        raise ExportError(f"tensor {node.tensor(index).name!r} is not a spectrum of known rank")
    return len(dims) - 1


def _one_part(node: Node, index: int, place: int) -> str:
    """The real (0) or imaginary (1) part of an input, with a last dimension of 1."""
    cut, rows = node.between("part"), {"starts": place, "ends": place + 1, "axes": _parts(node, index)}
    names = [node.constant(stem, np.array([number], np.int64)) for stem, number in rows.items()]
    node.add("Slice", [node.input(index), *names], [cut], domain="onnx")
    return cut


@complex_rule("RESHAPE")
def reshape(node: Node) -> None:
    """The new shape, which is an input or an option, followed by the dimension of the two parts."""
    shape = node.constant_integers(1) if node.has(1) else node.option_integers("new_shape")
    if shape is not None and 0 not in shape:
        return reshaped(node, [*shape, _PARTS])
    node.add("Reshape", [node.input(0), _with_parts(node, 1)], [node.output()], domain="onnx", allowzero=1)
    ranked_by_length(node, 1)


@complex_rule("TILE")
def tile(node: Node) -> None:
    node.add("Tile", [node.input(0), _with_parts(node, 1, repeats=1)], [node.output()], domain="onnx")


def _with_parts(node: Node, index: int, repeats: int = _PARTS) -> str:
    """An input of sizes or counts, with one more for the two parts."""
    whole, last = node.between("whole"), node.constant("parts", np.array([repeats], np.int64))
    node.add("Concat", [integers(node, index), last], [whole, node.between("lengths")], axis=0)
    return whole


@complex_rule("TRANSPOSE")
def transpose(node: Node) -> None:
    axes = node.constant_integers(1)
    if axes is None:
        raise ExportError("the permutation must be constant")
    rank = len(axes)
    order = [node.axis(axis, False, rank) for axis in axes]
    node.add("Transpose", [node.input(0)], [node.output()], axes=[*order, rank])


@complex_rule("SHAPE")
def shape(node: Node) -> None:
    dims, dtype = node.dims(0), node.result_dtype()
    if dims is not None and None not in dims:
        return define(node, np.array(dims, dtype))
    whole, sizes = node.between("whole"), node.between("sizes")
    node.add("Shape", [node.input(0)], [whole])
    names = [node.constant(stem, np.array([number], np.int64)) for stem, number in (("starts", 0), ("ends", -1))]
    node.add("Slice", [whole, *names], [sizes], domain="onnx")
    node.add("Cast", [sizes], [node.output()], domain="onnx", to=INT64 if dtype == np.int64 else INT32)


@complex_rule("CAST")
def cast(node: Node) -> None:
    """To real numbers: the real part; to bool, whether a part is not 0. From real numbers: without imaginary part."""
    if node.tensor(0).is_complex and node.result().is_complex:
        return node.alias(0, node.input(0))
    if node.result().is_complex:
        return _from_real(node)
    to, axis = number_of(node.result_dtype()), _parts(node, 0)
    if to == BOOL:
        bits, zero = node.between("bits"), node.constant("zero", np.zeros((), np.float32))
        node.add("NE", [node.input(0), zero], [bits])
        whole, most = node.between("numbers"), node.between("most")
        node.add("Cast", [bits], [whole], domain="onnx", to=FLOAT)
        node.add("ReduceMax", [whole], [most], axes=[axis], keepdims=0)
        return node.add("Cast", [most], [node.output()], domain="onnx", to=to)
    real = node.between("real")
    node.add("Squeeze", [_one_part(node, 0, 0)], [real], dims=[axis])
    node.add("Cast", [real], [node.output()], domain="onnx", to=to)


def _from_real(node: Node) -> None:
    floats, real, pads = node.between("floats"), node.between("real"), [0] * (2 * node.known_rank(0) + 2)
    node.add("Cast", [node.input(0)], [floats], domain="onnx", to=FLOAT)
    node.add("ExpandDims", [floats], [real], dims=[node.known_rank(0)])
    pads[-1] = 1
    names = [node.constant("pads", np.array(pads, np.int64)), node.constant("zero", np.zeros((), np.float32))]
    node.add("Pad", [real, *names], [node.output()], domain="onnx", mode="constant")


@complex_rule("MUL")
def mul(node: Node) -> None:
    """(a + ib)(c + id) = (ac - bd) + i(ad + bc)."""
    if node.option("fused_activation_function") != 0:
        raise ExportError("a fused activation is not supported on complex tensors")
    parts = [[_one_part(node, index, place) for place in range(_PARTS)] for index in range(2)]
    both: List[str] = []
    for stem, type, pairs in (("real", "Sub", ((0, 0), (1, 1))), ("imaginary", "Add", ((0, 1), (1, 0)))):
        products = [node.between("product") for _ in pairs]
        for product, (left, right) in zip(products, pairs):
            node.add("Mul", [parts[0][left], parts[1][right]], [product])
        both.append(node.between(stem))
        node.add(type, products, both[-1:])
    axis = max(_parts(node, index) for index in range(2))
    node.add("Concat", both, [node.output(), node.between("lengths")], axis=axis)
