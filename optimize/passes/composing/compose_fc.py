"""A product with a matrix of weights, and a bias added behind it, are a fully connected layer."""

from __future__ import annotations

from typing import Iterator, Optional

import numpy as np

from optimize.layers.fused import other_input
from optimize.rewriting.patterns import follows
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import Array, OperatorDef

_PRODUCTS = {"BatchMatMul", "MatMul", "onnx.MatMul"}
_SUMS = {"Add", "onnx.Add"}


def _layers(program: Program, start: int) -> Iterator[Match]:
    for match in follows(_PRODUCTS, _SUMS)(program, start):
        product, addition = program.operators(match)
        if product.input[1] in program.weights and (other_input(addition, product.output[0]) or "") in program.weights:
            yield match


def _compose(program: Program, match: Match) -> Rewrite:
    product, addition = program.operators(match)
    bias_name = other_input(addition, product.output[0])
    w, bias = program.value(product.input[1]), program.value(bias_name or "")
    dims = program.dims(product.input[0])
    if w is None or w.ndim != 2 or w.dtype.kind != "f" or dims is None:
        raise Refusal("the second factor is no matrix of floats, or the first one's dimensions are not known")
    if (
        product.get_bool("trans_a")
        or len(dims) < 2
        or (product.type == "MatMul" and not product.domain and (len(dims) != 2 or _has_axes(product)))
    ):
        raise Refusal("the rows of the first factor are not its last dimension")
    transposed = product.get_bool("trans_b")
    vector = _vector(bias, w.shape[0 if transposed else 1], len(dims), w)
    if addition.get_bool("broadcast") and addition.get_int("axis", -1) not in (-1, len(dims) - 1):
        raise Refusal("the bias is added along another dimension")
    name = program.fresh(f"{bias_name}_vector")
    op = OperatorDef.of(
        "FC" if transposed else "FCTransposed",
        [product.input[0], product.input[1], name],
        addition.output,
        name=addition.name,
    )
    return Rewrite((op if len(dims) == 2 else op.with_args(axis=len(dims) - 1),), weights={name: vector})


def _has_axes(op: OperatorDef) -> bool:
    return op.get_int("axis_a", 1) != 1 or op.get_int("axis_b", 1) != 1


def _vector(bias: Optional[Array], width: int, ndim: int, w: Array) -> Array:
    """The bias as one number a column of the product."""
    if bias is None or bias.dtype != w.dtype or bias.ndim > ndim:
        raise Refusal("the bias is not of the weights' type, or has more dimensions than the product")
    if bias.size not in (1, width) or (bias.size == width > 1 and bias.shape[-1] != width):
        raise Refusal(f"the bias of shape {bias.shape} is not one number a column")
    vector: Array = np.broadcast_to(bias.reshape(-1), (width,)).copy()
    return vector


PASS = Pass("compose_fc", (Rule(_layers, _compose),))
