"""Resizes of floats and of bytes: ONNX's Resize and TFLite's QuantizedResizeBilinear."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from exporter.to_caffe2.translator import OPEN, Translator, rule, transposed
from optimize.layers.pictures import matrix_of, resampled_by_tflite
from runtime_arm.errors import ExportError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.resampling import Resampled
from runtime_arm.operators.image import caffe2, onnx
from runtime_arm.registry.specs import TensorSpec

_CLOSE = 1e-6  # of a weight
_FIRST = {"NCHW": 2, "NHWC": 1}  # the dimension that is the height


class Resize(NamedTuple):
    """A resize of pictures: their specs and the resampling along their axes, for each choice of open sizes."""

    specs: Sequence[TensorSpec]
    axes: Sequence[Sequence[Resampled]]

    def of_caffe2(self, order: str, bytes: bool = False) -> Optional[OperatorDef]:
        """Caffe2's operator that reads the same pixels of pictures in this order; None if there is none."""
        height, size = _FIRST[order], self.specs[0].shape
        nearest = all(one.weights is None for one in self.axes[0])
        moved = {one.axis for each in self.axes for one in each}
        if len(size) != 4 or not moved <= {height, height + 1} or (not nearest and (bytes or order == "NHWC")):
            return None
        scales = {one.axis: one.size / max(size[one.axis], 1) for one in self.axes[0]}
        op = OperatorDef.of(
            "ResizeNearest" if nearest else "UpsampleBilinear",
            [],
            [],
            height_scale=scales.get(height, 1.0),
            width_scale=scales.get(height + 1, 1.0),
            **({"order": order} if nearest else {}),
        )
        found = [caffe2.axes_of(op, spec) for spec in self.specs]
        return op if all(map(_is_same, self.specs, self.axes, found)) else None

    def on_floats(self, net: Translator, x: str, y: str, name: str) -> List[OperatorDef]:
        """The operators that resize floats: Caffe2's own, else products with constant matrices."""
        own = self.of_caffe2("NCHW") or self.of_caffe2("NHWC")
        if own is not None:
            return [own.replace(input=(x,), output=(y,), name=name)]
        if len({tuple(spec.shape[one.axis] for one in axes) for spec, axes in zip(self.specs, self.axes)}) > 1:
            raise ExportError(f"Caffe2 has no such resize {OPEN}")
        if not self.axes[0]:
            return [OperatorDef.of("Copy", [x], [y], name=name)]
        ops: List[OperatorDef] = []
        for left, one in enumerate(self.axes[0], 1 - len(self.axes[0])):
            written = net.fresh(f"{y}_{one.axis}") if left else y
            ops += _resampled(net, one, self.specs[0].shape, x, written)
            x = written
        return ops


def _is_same(spec: TensorSpec, axes: Sequence[Resampled], found: Sequence[Resampled]) -> bool:
    """Whether two resizes compute each pixel from the same pixels with the same weights."""
    wanted, others = ({one.axis: one for one in each} for each in (axes, found))
    for axis in {*wanted, *others}:
        size = spec.shape[axis]
        matrices = [matrix_of(each[axis], size) if axis in each else np.eye(size) for each in (wanted, others)]
        if matrices[0].shape != matrices[1].shape or np.abs(matrices[0] - matrices[1]).max(initial=0) > _CLOSE:
            return False
    return True


def _resampled(net: Translator, one: Resampled, shape: Sequence[int], x: str, y: str) -> List[OperatorDef]:
    """Resizes one axis of floats."""
    if one.weights is None:
        places = net.constant(f"{y}_places", one.indices[0].astype(np.int32))
        return [OperatorDef.of("Gather", [x, places], [y], axis=one.axis)]
    matrix = net.constant(f"{y}_matrix", matrix_of(one, shape[one.axis]).astype(np.float32))
    rank = len(shape)
    if one.axis == rank - 2:
        return [OperatorDef.of("BatchMatMul", [matrix, x], [y], broadcast=1)]
    order = [*(axis for axis in range(rank) if axis != one.axis), one.axis]
    return transposed(
        net, x, y, order, lambda x, y: [OperatorDef.of("BatchMatMul", [x, matrix], [y], trans_b=1, broadcast=1)]
    )


@rule("onnx.Resize")
def resize(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    x, constants = op.input[0], net.known(op)
    specs = [spec for spec in net.program.specs(x) if spec is not None]
    given = [not name or value is not None for name, value in zip(op.input[1:], constants)]
    if len(specs) < len(net.program.specs(x)) or not all(given):
        raise ExportError(f"Caffe2 resizes by constant numbers, and has no other resize {OPEN}")
    axes = [onnx.axes_of(op, spec, *constants) for spec in specs]
    if any(one.outside is not None for each in axes for one in each):
        raise ExportError("Caffe2's resizes read nothing outside of a picture: crop it in the source model")
    made = Resize(specs, axes)
    if not net.holds_bytes(x):
        return made.on_floats(net, x, op.output[0], op.name)
    return _nearest_of_bytes(net, op, made) or _on_floats(net, op, made)


def _nearest_of_bytes(net: Translator, op: OperatorDef, made: Resize) -> List[OperatorDef]:
    """Caffe2's operator on bytes, which takes the channels last; no operators if it would read other pixels."""
    scale, (x, y) = net.scale_of(op.input[0]), (op.input[0], op.output[0])
    for order in _FIRST:
        own = made.of_caffe2(order, bytes=True)
        if own is None:
            continue
        net.passes_on(op, scale)
        own = own.replace(type="Int8ResizeNearest", name=op.name).with_args(order="NHWC", **scale.stated)

        def inner(x: str, y: str, own: OperatorDef = own) -> List[OperatorDef]:
            return [own.replace(input=(x,), output=(y,))]

        if order == "NHWC":
            return inner(x, y)
        return transposed(net, x, y, [0, 2, 3, 1], inner, "Int8Transpose", **scale.stated)
    return []


def _on_floats(net: Translator, op: OperatorDef, made: Resize) -> List[OperatorDef]:
    scale = net.scale_of(op.input[0])
    return net.on_floats(op, op.input[:1], scale, lambda x, y: made.on_floats(net, x, y, op.name))


@rule("tflite.QuantizedResizeBilinear")
def resize_bilinear(net: Translator, op: OperatorDef) -> List[OperatorDef]:
    """On floats between bytes."""
    (x, size), specs = op.input, [spec for spec in net.program.specs(op.input[0]) if spec is not None]
    sizes = net.program.content(size)
    if sizes is None or len(specs) < len(net.program.specs(x)):
        raise ExportError(f"Caffe2 resizes by constant numbers, and has no other resize {OPEN}")
    pixels = [list(zip((1, 2), spec.shape[1:3], map(int, sizes))) for spec in specs]
    axes = [[resampled_by_tflite(op, axis, n, out, specs[0].dtype) for axis, n, out in each] for each in pixels]
    return _on_floats(net, op, Resize(specs, axes))
