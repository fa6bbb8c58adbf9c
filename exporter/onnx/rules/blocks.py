"""Weights of few bits in blocks, which stay packed: matrix products with them, and rows gathered from them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from exporter.onnx.node import Node, Operators
from exporter.onnx.rules import rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.number_formats import FORMATS, packed, unpacked

_DOMAIN = "com.microsoft"


def _packed_rows(numbers: Array, format: str) -> Array:
    """Codes along the last axis, which is filled up with zeros to whole bytes."""
    per_byte = FORMATS[format].per_byte
    missing = -numbers.shape[-1] % per_byte
    whole = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, missing)])
    return packed(whole, format).reshape(*whole.shape[:-1], whole.shape[-1] // per_byte)


@rule("com.microsoft.GatherBlockQuantized")
def gather_block_quantized(node: Node) -> Operators:
    """onnxruntime's, with the codes of a narrow type in bytes."""
    format, dims = node.net.format(node.input(0)), node.dims(0)
    if format is None:
        return [node.as_onnx()]
    codes, per_byte = node.net.codes(node.input(0)), FORMATS[format].per_byte
    if codes is None or dims is None or None in dims or not dims:
        raise ExportError("the data must be a constant")
    last = int(dims[-1] or 0)
    if last % per_byte:
        raise ExportError(f"the last size of the data, {last}, must be a multiple of {per_byte}")
    shape = [int(size or 0) for size in dims]
    names = [node.constant("codes", codes.reshape(*shape[:-1], last // per_byte)), *node.inputs[1:3]]
    if node.has(3):
        zero_points = node.value(3)
        if zero_points is None:
            raise ExportError("the zero points must be constants")
        names.append(node.constant("zero_points", _packed_rows(zero_points, format)))
    attributes = {**node.without("bits"), "format": format}
    return [node.replace(inputs=tuple(names), attributes=attributes).as_onnx()]


def product_by_blocks(node: Node, along: int) -> Optional[OperatorDef]:
    """MatMulNBits, if the second factor is a matrix of integers of few bits that DequantizeLinear scales in blocks.

    along: the axis of that matrix that is summed over. None if it is something else.
    """
    maker = node.net.maker(node.input(1))
    if maker is None or maker.type != "DequantizeLinear" or node.caffe2_compatible:
        return None
    source, block = maker.input[0], maker.get_int("block_size", 0)
    format, codes, dims = node.net.format(source), node.net.codes(source), node.net.dims(source)
    scale = node.net.value(maker.input[1])
    if format is None or codes is None or scale is None or not FORMATS[format].is_integer:
        return None
    if dims is None or len(dims) != 2 or scale.ndim != 2 or block < 16 or block & (block - 1):
        return None
    if maker.get_int("axis", 1) % 2 != along or node.dtype_of_input(0) not in (None, scale.dtype):
        return None
    zero: Any = None
    if len(maker.input) > 2:
        zero = node.net.value(maker.input[2])
        if zero is None:
            return None
    shape = [int(size or 0) for size in dims]
    numbers = unpacked(codes, format, int(np.prod(shape))).reshape(shape)
    return _blocks(node, along, (numbers, scale, zero), format, block)


def _blocks(node: Node, along: int, matrix: Any, format: str, block: int) -> OperatorDef:
    """MatMulNBits by (numbers, scales, zero points or None) that lie along an axis in blocks."""
    numbers, scale, zero = (x.T if x is not None and along == 0 else x for x in matrix)
    bits, low = FORMATS[format].bits, FORMATS[format].low
    rows, depth = numbers.shape
    plain = f"uint{bits}"
    whole = np.pad(numbers.astype(np.int16) - low, [(0, 0), (0, -depth % block)]).astype(np.uint8)
    weights = packed(whole, plain).reshape(rows, -1, block * bits // 8)
    names = [node.input(0), node.constant("weights", weights)]
    names.append(node.constant("scales", np.ascontiguousarray(scale)))
    if zero is not None or low == 0:
        points = np.zeros(scale.shape, np.int16) if zero is None else zero.astype(np.int16)
        names.append(node.constant("zero_points", _packed_rows((points - low).astype(np.uint8), plain)))
    sizes = {"K": depth, "N": rows, "bits": bits, "block_size": block}
    return OperatorDef.of("MatMulNBits", names, [node.outputs[0]], name=node.name, domain=_DOMAIN, **sizes)
