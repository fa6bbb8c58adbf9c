"""Operators that only move elements, or choose among them, move the integers instead.

If the integers after such an operator have another scale, a table converts them to it.
"""

from __future__ import annotations

from typing import Iterator, List

import numpy as np

from optimize.passes.integers.look_up_integers import looked_up
from optimize.passes.integers.multiply_integers import window_arguments
from optimize.passes.integers.quantised import QUANTIZE, Integers, Quantised
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import CAFFE_POOLING, caffe2_list

# By full type: how many inputs are blobs of elements to move, from the first on; None for all.
MOVES = {
    **dict.fromkeys(("Reshape", "Flatten", "FlattenToVec", "Squeeze", "ExpandDims", "Transpose", "Copy", "Tile"), 1),
    **dict.fromkeys(("Gather", "Slice", "Split", "MaxPool", "MaxPool2D", "ResizeNearest", "ChannelShuffle"), 1),
    **dict.fromkeys(("onnx.Reshape", "onnx.Flatten", "onnx.Squeeze", "onnx.Unsqueeze", "onnx.Slice", "onnx.Split"), 1),
    **dict.fromkeys(("onnx.MaxPool", "onnx.Tile", "onnx.Expand", "onnx.DepthToSpace", "onnx.SpaceToDepth"), 1),
    **dict.fromkeys(("onnx.Gather", "onnx.GatherElements", "onnx.GatherND", "onnx.Resize", "PadImage", "onnx.Pad"), 1),
    **dict.fromkeys(("onnx.ReduceMax", "onnx.ReduceMin"), 1),
    "Concat": None,
}


def _moves(program: Program, start: int) -> Iterator[Match]:
    """An operator that moves elements, and the QuantizeLinears that read its outputs and nothing else."""
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        if op.full_type not in MOVES:
            continue
        found = [(name, program.readers(name)) for name in op.output if name]
        read = [(name, readers) for name, readers in found if readers]
        quantizes = [readers[0] for _, readers in read]
        if read and all(program.net.op[reader].full_type in QUANTIZE for reader in quantizes):
            yield Match((place, *quantizes), tuple(name for name, _ in found))


def _move(program: Program, match: Match) -> Rewrite:
    op, *quantizes = program.operators(match)
    integers = Integers(program)
    made = {quantize.input[0]: integers.made_by(quantize) for quantize in quantizes}
    if len(made) < len(quantizes):
        raise Refusal("its output becomes integers twice")
    count = MOVES[op.full_type]
    inputs = [integers.one_scale(name) for name in (op.input if count is None else op.input[:count])]
    x = inputs[0]
    if not all(one.has_parameters_of(x) for one in inputs):
        raise Refusal("its inputs have different scales")
    ops: List[OperatorDef] = []
    outputs: List[str] = []
    for name in op.output:
        y = made.get(name)
        if y is None or y.has_parameters_of(x):
            outputs.append(program.fresh(f"{name}_moved") if y is None and name else "" if y is None else y.blob)
        else:
            outputs.append(program.fresh(f"{y.blob}_moved"))
            ops.append(_rescaled(integers, x, y, outputs[-1]))
    moved = _on_integers(integers, op, x).replace(output=tuple(outputs))
    moved = moved.replace(input=(*(one.blob for one in inputs), *moved.input[len(inputs) :]))
    return integers.rewrite(moved, *ops, at=match.places[0])


def _rescaled(integers: Integers, x: Quantised, y: Quantised, moved: str) -> OperatorDef:
    return looked_up(integers, x._replace(blob=moved), y, lambda reals: reals)


def _on_integers(integers: Integers, op: OperatorDef, x: Quantised) -> OperatorDef:
    """The operator with what it fills or limits as integers."""
    if op.type in ("MaxPool", "MaxPool2D"):
        return _largest(integers, op, x)
    if op.full_type in ("PadImage", "onnx.Pad") and op.get_str("mode", "constant") == "constant":
        return _padded(integers, op, x)
    if op.type == "Resize" and op.get_str("mode", "nearest") != "nearest":
        raise Refusal("it computes new numbers between pixels")
    if op.type == "Resize" and op.get_str("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        raise Refusal("it may read beyond the picture")
    return op


def _largest(integers: Integers, pool: OperatorDef, x: Quantised) -> OperatorDef:
    if pool.domain:
        return pool
    if pool.get_bool("global_pooling"):
        rank = len(integers.program.dims(x.blob) or ())
        axes = integers.constant(f"{pool.output[0]}_axes", np.arange(2, rank))
        return OperatorDef.of("ReduceMax", [pool.input[0], axes], pool.output, domain="onnx", name=pool.name)
    up = pool.get_int("legacy_pad", 0) == CAFFE_POOLING
    plain = pool.with_args(legacy_pad=None) if up else pool
    if up and len(set(caffe2_list(pool, "dilation", "hw")) - {1}):
        raise Refusal("its sizes are rounded up by a rule that does not allow dilation")
    op = OperatorDef.of("MaxPool", pool.input, pool.output, domain="onnx", name=pool.name)
    return op.with_args(**window_arguments(plain), ceil_mode=1 if up else None)


def _padded(integers: Integers, op: OperatorDef, x: Quantised) -> OperatorDef:
    """Pads with the integer that stands for the constant; Refusal if none does."""
    name = op.input[2] if op.domain and len(op.input) > 2 else ""
    value = integers.program.value(name) if name else np.asarray(op.get_float("value", 0.0), np.float32)
    if value is None or value.size != 1:
        raise Refusal(f"the constant {name!r} is not known")
    steps, info = float(value.reshape(())) / float(x.scale) + int(x.zero_point), np.iinfo(x.dtype)
    if steps != round(steps) or not info.min <= steps <= info.max:
        raise Refusal("no integer stands for the constant that it pads with")
    if not op.domain:
        return op.with_args(value=float(steps))
    filler = integers.constant(f"{x.blob}_padding", np.asarray(int(steps), x.dtype))
    return op.replace(input=(*op.input[:2], filler, *op.input[3:]))


PASS = Pass("move_integers", (Rule(_moves, _move),))
