"""Lets operators read the elements of a sequence directly, if these are known, so that nothing needs the sequence.

SplitToSequence becomes a Split into blobs. SequenceAt, ConcatFromSequence and SequenceLength of what is inserted,
erased and split one by one become copies, Concat and a constant.
"""

from __future__ import annotations

from typing import Callable, List, Mapping, Optional, Sequence

import numpy as np

from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, source
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.randomness import SEQUENCE_MAKERS

MOST_ELEMENTS = 256  # and steps by which a sequence is made


def _position(program: Program, op: OperatorDef, at: int, default: int) -> Optional[int]:
    """The position that the input ``at`` holds; None if it is not known."""
    if len(op.input) <= at or not op.input[at]:
        return default
    return program.integer(op.input[at])


def _elements(program: Program, name: str) -> List[str]:
    """The blobs that the elements of a sequence are copies of. Refusal if they are not known."""
    changes: List[OperatorDef] = []
    while True:
        made = source(program, name)
        is_made = made is not None and made.full_type in SEQUENCE_MAKERS
        if made is None or not is_made or program.is_rewritten(name) or len(changes) > MOST_ELEMENTS:
            raise Refusal(f"what {name!r} holds is not known")
        if made.full_type not in ("onnx.SequenceInsert", "onnx.SequenceErase"):
            break
        changes.append(made)
        name = made.input[0]
    if made.full_type == "onnx.SplitToSequence" or len(made.input) > MOST_ELEMENTS:
        raise Refusal(f"the parts of {name!r} are no blobs")
    elements = list(made.input)
    for change in reversed(changes):
        _change(program, change, elements)
    again = [name for name in elements if program.is_rewritten(name)]
    if again:
        raise Refusal(f"{again[0]!r} is written more than once")
    return elements


def _change(program: Program, op: OperatorDef, elements: List[str]) -> None:
    """Insert or erase as the operator does."""
    inserts, count = op.full_type == "onnx.SequenceInsert", len(elements)
    place = _position(program, op, 2, count) if inserts else _position(program, op, 1, -1)
    if place is None or not -count <= place < count + inserts:
        raise Refusal(f"the position in {op.signature()} is not known")
    if inserts:
        elements.insert(place, op.input[1])
    else:
        del elements[place]


def _element(program: Program, op: OperatorDef, elements: List[str]) -> Rewrite:
    place = _position(program, op, 1, 0)
    if place is None or not -len(elements) <= place < len(elements):
        raise Refusal("the position is not known")
    return Rewrite((OperatorDef.of("Copy", [elements[place]], op.output),))


def _joined(program: Program, op: OperatorDef, elements: List[str]) -> Rewrite:
    if not elements:
        raise Refusal("the sequence is empty")
    outputs = [op.output[0], program.fresh(f"{op.output[0]}_lengths")]
    concat = OperatorDef.of("Concat", elements, outputs, axis=op.get_int("axis"))
    return Rewrite((concat.with_args(add_axis=1) if op.get_bool("new_axis") else concat,))


def _length(program: Program, op: OperatorDef, elements: List[str]) -> Rewrite:
    reason = program.why_named(op.output[0])
    if reason:
        raise Refusal(reason)
    return Rewrite(weights={op.output[0]: np.array(len(elements), np.int64)})


_READ: Mapping[str, Callable[[Program, OperatorDef, List[str]], Rewrite]] = {
    "onnx.SequenceAt": _element,
    "onnx.ConcatFromSequence": _joined,
    "onnx.SequenceLength": _length,
}


def _read(program: Program, op: OperatorDef) -> Rewrite:
    return _READ[op.full_type](program, op, _elements(program, op.input[0]))


def _split(program: Program, op: OperatorDef) -> Rewrite:
    """As many parts as are known, as blobs, and the sequence of these."""
    x, axis, given = op.input[0], op.get_int("axis", 0), any(op.input[1:])
    sizes = _sizes(program.dims(x), axis, program.content(op.input[1]) if given else np.array(1))
    if not 0 < len(sizes) <= MOST_ELEMENTS:
        raise Refusal(f"there are no parts, or more than {MOST_ELEMENTS}")
    squeezes = not given and not op.get_bool("keepdims", True)
    parts = [program.fresh(f"{op.output[0]}_part{at}") for at in range(len(sizes))]
    split = OperatorDef.of("Split", [x], parts, axis=axis)
    split = split.with_args(add_axis=1) if squeezes else split.with_args(split=sizes)
    return Rewrite((split, OperatorDef.of("SequenceConstruct", parts, op.output, domain="onnx")))


def _sizes(dims: Optional[Sequence[Optional[int]]], axis: int, split: Optional[Array]) -> List[int]:
    """The sizes of the parts along an axis; only the first ones if there are too many.

    split: the operator's second input, a list of the sizes or the size of all but the last.
    """
    length = None if dims is None or not -len(dims) <= axis < len(dims) else dims[axis]
    if split is None or split.dtype.kind not in "iu" or (length is None and not split.ndim):
        raise Refusal("the number of parts is not known")
    if split.ndim or length is None:
        return [int(size) for size in split]
    each = int(split)
    if each < 1:
        raise Refusal("the parts have no size")
    starts = range(0, length, each)[: MOST_ELEMENTS + 1]  # the length may be anything
    return [min(each, length - at) for at in starts]


PASS = Pass(
    "remove_sequences",
    (rule(operator({"onnx.SplitToSequence"}, "op"), to=_split), rule(operator(_READ, "op"), to=_read)),
)
