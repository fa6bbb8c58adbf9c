"""Padding of floats and of bytes: ONNX's Pad."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, List

import numpy as np

from exporter.to_caffe2.translator import OPEN, Translator, rule, transposed
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.layout.pad import Padding, padding_of
from runtime_arm.registry.specs import TensorSpec

_PICTURE = 4  # dimensions


@rule("onnx.Pad")
def pad(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """Joins constants if all sizes are known; else pads as pictures, for which Caffe2 needs no sizes."""
    x, constants = op.input[0], net.known(op)
    spec, dims = net.program.specs(x)[0], net.program.dims(x)
    if spec is None or dims is None or any(n and c is None for n, c in zip(op.input[1:], constants)):
        raise ExportError("Caffe2 pads only by constant numbers, and only blobs whose number of dimensions is known")
    padding = padding_of(op, spec, constants)
    given = constants[1] if len(constants) > 1 else None
    value = np.zeros((), spec.dtype) if given is None or given.value is None else given.value.reshape(())
    if padding.mode == "constant" and None not in dims and min([*padding.heads, *padding.tails], default=0) >= 0:
        return _joined(net, op, padding, spec, value)
    _check(padding, spec, net.holds_bytes(x))
    if not net.holds_bytes(x):
        return _padded(net, x, op.output[0], padding, float(value))
    scale = net.scale_of(x)
    real = float(np.float32(scale.scale) * np.float32(int(value) + net.up(x) - scale.zero_point))
    return net.on_floats(op, [x], scale, lambda x, y: _padded(net, x, y, padding, real))


def _joined(net: Translator, op: OperatorDef, padding: Padding, spec: TensorSpec, value: Array) -> List[OperatorDef]:
    """Joins a constant to the ends of one dimension after the other, of bytes or of floats."""
    x, y, shape, ops = op.input[0], op.output[0], list(spec.shape), []
    like = x if net.holds_bytes(x) else None
    axes = [axis for axis, ends in enumerate(zip(padding.heads, padding.tails)) if any(ends)] or [0]
    for axis in axes:
        ends = [np.full([*shape[:axis], n[axis], *shape[axis + 1 :]], value) for n in (padding.heads, padding.tails)]
        head, tail = (
            [net.constant(f"{y}_{axis}_{what}", end, like)] if end.size else []
            for what, end in zip(("head", "tail"), ends)
        )
        written = y if axis == axes[-1] else net.fresh(f"{y}_{axis}")
        outputs = [written, net.fresh(f"{written}_sizes")]
        ops += net.translated(OperatorDef.of("Concat", [*head, x, *tail], outputs, axis=axis))
        x, shape[axis] = written, shape[axis] + padding.heads[axis] + padding.tails[axis]
    return ops


def _check(padding: Padding, spec: TensorSpec, bytes: bool) -> None:
    """ExportError unless Caffe2 pads pictures in this way."""
    cut = min([*padding.heads, *padding.tails], default=0) < 0
    if padding.mode == "wrap":
        raise ExportError(
            "Caffe2 does not pad with the pixels of the other end: join them with Concat in the source model"
        )
    if cut and padding.mode != "constant":
        raise ExportError(
            f"Caffe2 cannot cut off and pad by {padding.mode} at once: use Slice in the source model first"
        )
    if spec.ndim > _PICTURE:
        raise ExportError(f"Caffe2 pads at most {_PICTURE} dimensions {OPEN}")
    if not bytes and spec.dtype != np.float32:
        raise ExportError(f"Caffe2 pads only floats in this way, and the input is {spec.dtype.name}")


def _padded(net: Translator, x: str, y: str, padding: Padding, value: float) -> List[OperatorDef]:
    """Pads floats, two dimensions at a time, which become height and width."""
    rank, ops = len(padding.heads), []
    axes = [axis for axis in range(rank) if padding.heads[axis] or padding.tails[axis]] or [rank - 1]
    arguments: Dict[str, Any] = {"mode": padding.mode, **({"value": value} if padding.mode == "constant" else {})}
    for start in range(0, len(axes), 2):
        padded = axes[start : start + 2]
        written = net.fresh(f"{y}_{start}") if start + 2 < len(axes) else y
        if rank == _PICTURE and set(padded) <= {1, 2}:
            both, order, arguments["order"] = [1, 2], list(range(rank)), "NHWC"
        else:
            order = [*(axis for axis in range(rank) if axis not in padded), *padded]
            both, arguments["order"] = order[-2:], "NCHW"
        pads = [ends[axis] if axis in padded else 0 for ends in (padding.heads, padding.tails) for axis in both]
        if rank == 1:
            pads = [0, pads[0], 0, pads[1]]
        inner = partial(_picture, net, rank=rank, pads=pads, **arguments)
        ops += transposed(net, x, written, order, inner)
        x = written
    return ops


def _picture(net: Translator, x: str, y: str, rank: int, **arguments: Any) -> List[OperatorDef]:
    """PadImage on X with leading dimensions of size 1."""
    dims = list(range(_PICTURE - rank))
    if not dims:
        return [OperatorDef.of("PadImage", [x], [y], **arguments)]
    wide, padded = net.fresh(f"{y}_wide"), net.fresh(f"{y}_padded")
    return [
        OperatorDef.of("ExpandDims", [x], [wide], dims=dims),
        OperatorDef.of("PadImage", [wide], [padded], **arguments),
        OperatorDef.of("Squeeze", [padded], [y], dims=dims),
    ]
