"""A product with a weight matrix, followed by the addition of a bias, becomes a fully connected layer."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

import numpy as np

from optimize.rewriting.patterns import commutative, operator, rule, weight
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import Array, OperatorDef

LONGER, FAR = 2, 1 << 20  # times as many terms as columns; bytes of weights that do not stay in a cache


def _compose(program: Program, x: str, w: str, product: OperatorDef, bias: str, addition: OperatorDef) -> Rewrite:
    matrix, dims = program.value(w), program.dims(x)
    if matrix is None or matrix.ndim != 2 or matrix.dtype.kind != "f" or dims is None:
        raise Refusal("the second factor is not a matrix of floats, or the dimensions of the first are not known")
    if (
        product.get_bool("trans_a")
        or len(dims) < 2
        or (product.full_type == "MatMul" and (len(dims) != 2 or _has_axes(product)))
    ):
        raise Refusal("the rows of the first factor are not its last dimension")
    transposed = product.get_bool("trans_b")
    vector = _vector(program.value(bias), matrix.shape[0 if transposed else 1], len(dims), matrix)
    if addition.get_bool("broadcast") and addition.get_int("axis", -1) not in (-1, len(dims) - 1):
        raise Refusal("the bias is added along another dimension")
    name = program.fresh(f"{bias}_vector")
    weights: Dict[str, Optional[Array]] = {name: vector}
    if not transposed and _pays_to_turn(dims[:-1], matrix) and len(program.readers(w)) == 1:
        w, transposed = program.fresh(f"{w}_turned"), True
        weights[w] = np.ascontiguousarray(matrix.T)
    type = "FC" if transposed else "FCTransposed"
    op = OperatorDef.of(type, [x, w, name], addition.output, name=addition.name)
    return Rewrite((op if len(dims) == 2 else op.with_args(axis=len(dims) - 1),), weights=weights)


def _pays_to_turn(rows: Sequence[Optional[int]], matrix: Array) -> bool:
    """Whether the product of one row with a matrix of many short rows is faster with the matrix transposed, so that its
    rows are few and long: BLAS reads weights from memory row by row.
    """
    terms, width = matrix.shape
    return all(size == 1 for size in rows) and terms >= LONGER * width and matrix.nbytes >= FAR


def _has_axes(product: OperatorDef) -> bool:
    return product.get_int("axis_a", 1) != 1 or product.get_int("axis_b", 1) != 1


def _vector(bias: Optional[Array], width: int, ndim: int, w: Array) -> Array:
    """The bias as one number for each column of the product."""
    if bias is None or bias.dtype != w.dtype or bias.ndim > ndim:
        raise Refusal("the bias has another dtype than the weights, or more dimensions than the product")
    if bias.size not in (1, width) or (bias.size == width > 1 and bias.shape[-1] != width):
        raise Refusal(f"the bias of shape {bias.shape} is not one number for each column")
    vector: Array = np.broadcast_to(bias.reshape(-1), (width,)).copy()
    return vector


_PRODUCT = operator({"BatchMatMul", "MatMul", "onnx.MatMul"}, "product")
_SUM = commutative({"Add", "onnx.Add"}, "addition")

PASS = Pass("compose_fc", (rule(_SUM(_PRODUCT("x", weight("w")), weight("bias")), to=_compose),))
