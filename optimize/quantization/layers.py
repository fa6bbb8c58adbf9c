"""Layers: the operators that multiply by a constant weight, with the weight and the axis of its outputs."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple

import numpy as np

from optimize.rewriting.program import Program
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
    op = program.net.op[place]
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


def layers_of(program: Program, least: int = LEAST_ELEMENTS) -> List[Layer]:
    """Those of all operators, in the net's order; a weight that several operators read belongs to the first one."""
    found: List[Layer] = []
    for place in range(len(program.net.op)):
        known = {layer.weight for layer in found}
        found += [layer for layer in layers_at(program, place, least) if layer.weight not in known]
    return found


def _axis(op: OperatorDef, ndim: int) -> int:
    if op.full_type in _TRANSPOSED:
        return 1
    if op.full_type in _COLUMNS:
        return ndim - 2 if op.get_bool("trans_b") or op.get_bool("transB") else ndim - 1
    recurrent = op.domain in ("onnx", "com.microsoft") and ndim == 3 and not op.type.startswith("Conv")
    return 1 if recurrent else 0  # (directions, gates, columns)
