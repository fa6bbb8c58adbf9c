"""Removes operators whose output is their input: copies, Dropout of a trained net, casts and views that change nothing.

An operator is one of these only if its output has the input's shape and dtype. Views are therefore removed only where
both shapes are known, and a Concat of one input only if it adds no axis.
"""

from __future__ import annotations

from typing import Iterator

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule, merged
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.layout.concat import adds_axis
from runtime_arm.registry.schema import find

_COPIES = {"Alias", "Copy", "EnsureCPUOutput", "EnsureDense", "StopGradient", "onnx.Identity"}
_OF_ONE_INPUT = {"Concat", "Max", "Mean", "Min", "Sum", "onnx.Concat", "onnx.Max", "onnx.Mean", "onnx.Min", "onnx.Sum"}


def _no_ops(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        op = program.net.op[place]
        if op.input and op.output and _is_no_op(program, op):
            yield Match((place,), tuple(name for name in op.output[1:] if name))


def _is_no_op(program: Program, op: OperatorDef) -> bool:
    if op.full_type in _COPIES:
        return True
    if op.full_type in _OF_ONE_INPUT:
        return len(op.input) == 1 and not adds_axis(op)
    if op.full_type == "Dropout":
        return op.get_bool("is_test")
    if op.full_type == "onnx.Dropout":
        return not any(op.input[2:])
    schema = find(op)
    may_change_nothing = op.full_type == "Cast" or (schema is not None and schema.view)
    return may_change_nothing and program.have_same_shape(op.input[0], op.output[0])


def _remove(program: Program, match: Match) -> Rewrite:
    op = program.net.op[match.places[0]]
    return Rewrite(rename=merged(program, op.output[0], op.input[0]))


def _compose_reshapes(program: Program, match: Match) -> Rewrite:
    """Only the last shape counts, unless it copies sizes (0) from the one before."""
    first, second = program.operators(match)
    shape = program.value(second.input[1]) if len(second.input) > 1 else second.get_ints("shape")
    if shape is None or 0 in shape:
        raise Refusal("the shape copies sizes of its input" if shape is not None else "the shape is not constant")
    if len(second.output) < 2:
        raise Refusal("a Reshape has two outputs")
    outputs = (second.output[0], program.fresh(second.output[1]))  # the old shape is that of another blob now
    return Rewrite((second.replace(input=(first.input[0], *second.input[1:]), output=outputs),))


def _reshapes_of_views(program: Program, start: int) -> Iterator[Match]:
    for place in range(start, len(program.net.op)):
        reshape = program.net.op[place]
        writer = program.writer(reshape.input[0]) if reshape.full_type == "Reshape" else None
        schema = None if writer is None else find(program.net.op[writer])
        if writer is not None and schema is not None and schema.view:
            gone = (*program.net.op[writer].output, *reshape.output[1:])
            yield Match((writer, place), tuple(name for name in gone if name))


PASS = Pass("remove_no_ops", (Rule(_no_ops, _remove), Rule(_reshapes_of_views, _compose_reshapes)))
