"""Zeros padded around the input of a convolution or a pool become padding of that operator."""

from __future__ import annotations

from typing import List, NamedTuple, Tuple

import numpy as np

from optimize.layers.linear import CONVOLUTIONS
from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, source
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import NOTSET, caffe2_list, channels_last

_NEVER_NEGATIVE = {"Relu", "Sigmoid", "onnx.Relu", "onnx.Sigmoid"}


class _Zeros(NamedTuple):
    """How many zeros are added at the start and at the end of each dimension."""

    heads: List[int]
    tails: List[int]


def _zeros(program: Program, op: OperatorDef) -> _Zeros:
    if op.get_str("mode", "constant") != "constant":
        raise Refusal("it does not pad with zeros")
    heads, tails = _image_pads(op) if op.type == "PadImage" else _all_pads(program, op)
    if min(heads + tails, default=0) < 0:
        raise Refusal("it removes elements")
    return _Zeros(heads, tails)


def _image_pads(op: OperatorDef) -> Tuple[List[int], List[int]]:
    pads = caffe2_list(op, "pad", "tlbr") or [0] * 4
    if len(pads) != 4 or op.get_int("legacy_pad", NOTSET) != NOTSET or op.get_float("value", 0.0):
        raise Refusal("it does not pad with zeros")
    inner = [[0, 0, *pads[:2]], [0, 0, *pads[2:]]]
    if channels_last(op):
        inner = [[0, *pads[:2], 0], [0, *pads[2:], 0]]
    return inner[0], inner[1]


def _all_pads(program: Program, op: OperatorDef) -> Tuple[List[int], List[int]]:
    pads, value, axes = (program.value(name) if name else None for name in (*op.input[1:4], "", "", "")[:3])
    if pads is None or any(op.input[3:]) or axes is not None:
        raise Refusal("the pads are not constant, or not given for all dimensions")
    if any(op.input[2:3]) and (value is None or np.any(value)):
        raise Refusal("it does not pad with zeros")
    numbers = [int(n) for n in pads.reshape(-1)]
    return numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]


def _fold(program: Program, x: str, pad: OperatorDef, reader: OperatorDef) -> Rewrite:
    zeros = _zeros(program, pad)
    if reader.get_int("legacy_pad", NOTSET) != NOTSET:
        raise Refusal("legacy_pad derives the padding from the size of the image")
    if reader.type not in CONVOLUTIONS:
        _check_pool(program, x, reader)
    ndim = len(zeros.heads)
    image = slice(1, ndim - 1) if channels_last(reader) else slice(2, ndim)
    others = [n for side in zeros for axis, n in enumerate(side) if axis not in range(*image.indices(ndim))]
    if any(others) or ndim < 3:
        raise Refusal("it pads other dimensions than those of the image")
    own = caffe2_list(reader, "pad", "tlbr") or [0] * 2 * (ndim - 2)
    added = [*zeros.heads[image], *zeros.tails[image]]
    if len(own) != len(added):
        raise Refusal(f"the operator has {len(own)} pads of its own, but {len(added)} would be added")
    pads = [a + b for a, b in zip(own, added)]
    if reader.type not in CONVOLUTIONS and any(n >= k for n, k in zip(pads, caffe2_list(reader, "kernel", "hw") * 2)):
        raise Refusal("the padding of a pool must be smaller than its kernel")
    args = dict.fromkeys(("pad", "pad_t", "pad_l", "pad_b", "pad_r"))
    op = reader.with_args(**args, pads=pads)
    if reader.type == "AveragePool":
        op = op.with_args(count_include_pad=1)
    return Rewrite((op.replace(input=(x, *reader.input[1:])),))


def _check_pool(program: Program, x: str, pool: OperatorDef) -> None:
    """Refusal if the zeros make a difference: a pool ignores its own padding, but it read these zeros."""
    if pool.get_bool("global_pooling"):
        raise Refusal("a pool over the whole image has no padding")
    if pool.type == "AveragePool":
        if any(caffe2_list(pool, "pad", "tlbr")) and not pool.get_bool("count_include_pad"):
            raise Refusal("the zeros count in the average, the pool's own padding does not")
        return
    writer = source(program, x)
    if writer is None or not (writer.full_type in _NEVER_NEGATIVE or _clips_at_zero(writer)):
        raise Refusal("the zeros may be the maximum where the image is negative")


def _clips_at_zero(op: OperatorDef) -> bool:
    return op.full_type == "Clip" and op.get_float("min", -1.0) >= 0


_PAD = operator({"PadImage", "onnx.Pad"}, "pad")
_READER = operator(CONVOLUTIONS | {"AveragePool", "MaxPool"}, "reader")

PASS = Pass("fold_padding", (rule(_READER(_PAD("x")), to=_fold),))
