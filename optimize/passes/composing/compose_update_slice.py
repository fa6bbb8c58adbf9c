"""Operators that write a block into a blob by the index of each element become one operator.

PyTorch's older exporter writes ``x[:, 1:, 1:] = y`` in this way: a ScatterND whose indices are ranges, expanded to the
block. The indices take many times the memory of the block.
"""

from __future__ import annotations

from typing import List, Sequence

import numpy as np

from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, source
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import find


def _writes(program: Program, op: OperatorDef) -> bool:
    return op.get_str("reduction", "none") == "none"


def _update(program: Program, op: OperatorDef) -> Rewrite:
    x, indices, block = op.input
    whole, part, depth = (_sizes(program, name) for name in (x, block, indices))
    if len(whole) != len(part) or depth != [*part, len(whole)]:
        raise Refusal("the indices are not those of single elements")
    columns = _columns(program, indices, part)
    starts = [_start(values, axis, part) for axis, values in enumerate(columns)]
    if any(start < 0 or start + size > most for start, size, most in zip(starts, part, whole)):
        raise Refusal("the block does not lie inside")
    name = program.fresh(f"{op.output[0]}_start")
    update = OperatorDef.of("DynamicUpdateSlice", [x, block, name], op.output, domain="tflite")
    return Rewrite((update,), {name: np.array(starts, np.int64)})


def _sizes(program: Program, name: str) -> List[int]:
    dims = program.dims(name)
    sizes = [size for size in dims or () if size is not None]
    if dims is None or len(sizes) < len(dims):
        raise Refusal("the shapes are not known")
    return sizes


def _columns(program: Program, name: str, block: Sequence[int]) -> List[Array]:
    """The indices of each dimension, in a shape that broadcasts to that of the block."""
    known = program.content(name)
    if known is not None:
        return list(np.moveaxis(known, -1, 0))
    made = source(program, name)
    if made is None or made.type != "Concat" or len(made.input) != len(block):
        raise Refusal("the indices are not joined from those of each dimension")
    axis = made.get_int("axis", 1)
    if axis not in (-1, len(block)) or made.get_bool("add_axis"):
        raise Refusal("the indices are not joined along their last dimension")
    return [_spread(program, column, block) for column in made.input]


def _start(values: Array, axis: int, block: Sequence[int]) -> int:
    """The first index, if indices grow by one along this axis of the block and are constant along all others."""
    wanted = np.arange(block[axis]).reshape((-1, *(1,) * (len(block) - axis - 1)))
    start = int(values.flat[0]) if values.size else 0
    if not np.all(values - start == wanted):
        raise Refusal("the indices are not those of a block")
    return start


def _spread(program: Program, name: str, block: Sequence[int]) -> Array:
    """The constant that is broadcast to a column of indices."""
    view = source(program, name)
    schema = None if view is None else find(view)
    if view is None or schema is None or not schema.view or program.dims(view.input[0]) != tuple(block):
        raise Refusal("the indices have another shape than the block")
    expanded = source(program, view.input[0])
    small = view.input[0] if expanded is None or expanded.type != "Expand" else expanded.input[0]
    values = program.content(small)
    if values is None:
        raise Refusal("the indices are not known")
    return values


PASS = Pass("compose_update_slice", (rule(operator({"onnx.ScatterND"}, "op", where=_writes), to=_update),))
