"""Layers: the operators that multiply by a constant weight, with the weight and the axis of its outputs.

Those inside the branches of an If, or the bodies of Loop and Scan, read weights of the net around them by name.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, List, NamedTuple, Tuple

import numpy as np

from optimize.rewriting.program import Program
from optimize.rewriting.subnets import FUNCTIONAL
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import find

LEAST_ELEMENTS = 256  # smaller weights are not worth an operator that unpacks them
LEAST_TABLE = 1 << 14  # elements of a table of rows, such as embeddings

_TABLES = {"Gather", "onnx.Gather", "com.microsoft.EmbedLayerNormalization"}
_COLUMNS = {"FCTransposed", "MatMul", "onnx.MatMul", "onnx.Gemm", "BatchMatMul"}
_TRANSPOSED = {"ConvTranspose", "onnx.ConvTranspose", "armnet.FusedConvTranspose"}


class Layer(NamedTuple):
    """A weight of an operator. axis: that of the filters, columns or rows, each of which may have its own scale."""

    name: str
    op: OperatorDef
    weight: str
    axis: int


def layer_name(op: OperatorDef) -> str:
    """The operator's type and its first output: how tables and reports call it."""
    return f"{op.full_type} {next((name for name in op.output if name), '')}"


def layers_at(program: Program, place: int, least: int = LEAST_ELEMENTS) -> Iterator[Layer]:
    """The float32 weights, of ``least`` elements or more, of the operator at a place."""
    return _layers(program, program.net.op[place], least)


def layers_within(program: Program, place: int, least: int = LEAST_ELEMENTS) -> Iterator[Layer]:
    """Those of the operators in the nets of the operator at a place."""
    if program.net.op[place].full_type in FUNCTIONAL:
        for inner, own in _operators_within(program.net.op[place]):
            yield from (layer for layer in _layers(program, inner, least) if layer.weight not in own)


def _operators_within(op: OperatorDef) -> Iterator[Tuple[OperatorDef, AbstractSet[str]]]:
    """The operators of its nets, and of theirs, with the names that mean something else there than outside."""
    for net in op.subnets():
        own = {*net.external_input, *(name for inner in net.op for name in inner.output)} - {*net.captures()}
        for inner in net.op:
            yield inner, own
            yield from ((deeper, own | others) for deeper, others in _operators_within(inner))


def _layers(program: Program, op: OperatorDef, least: int) -> Iterator[Layer]:
    schema = find(op)
    table = op.full_type in _TABLES
    if schema is None or not (table or schema.multiply_adds is not None):
        return
    for weight in dict.fromkeys(op.input):
        spec = program.weights.spec(weight)
        if spec is None or spec.dtype != np.float32 or spec.ndim < 2 or spec.quantization is not None:
            continue
        if spec.size >= (LEAST_TABLE if table else least):
            yield Layer(layer_name(op), op, weight, _axis(op, spec.ndim))


def layers_of(program: Program, least: int = LEAST_ELEMENTS, within: bool = False) -> List[Layer]:
    """Those of all operators, in the net's order; a weight that several operators read belongs to the first one.

    within: of the operators in their nets, too.
    """
    found: List[Layer] = []
    for place in range(len(program.net.op)):
        known = {layer.weight for layer in found}
        deeper = layers_within(program, place, least) if within else ()
        found += [layer for layer in (*layers_at(program, place, least), *deeper) if layer.weight not in known]
    return found


def _axis(op: OperatorDef, ndim: int) -> int:
    if op.full_type in _TRANSPOSED:
        return 1
    if op.full_type in _COLUMNS:
        return ndim - 2 if op.get_bool("trans_b") or op.get_bool("transB") else ndim - 1
    recurrent = op.domain in ("onnx", "com.microsoft") and ndim == 3 and not op.type.startswith("Conv")
    return 1 if recurrent else 0  # (directions, gates, columns)
