"""Resizing images: Caffe2's ResizeNearest, ResizeNearest3D, UpsampleBilinear, and Detectron's UpsampleNearest."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.resampling import (
    Resampled,
    bind_resampling,
    interpolated,
    nearest,
    resample_exactly,
    resampling_scratch,
    triangle,
)
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require, value_of
from runtime_arm.registry.specs import Shape, TensorSpec


def _caffe2_scales(op: OperatorDef, names: Sequence[str], given: Optional[TensorSpec] = None) -> List[np.float32]:
    """The scales: those in input 1 if it is given, else the arguments, 1 by default."""
    scales = [np.float32(op.get_float(name, 1.0)) for name in names]
    if given is not None:
        require(
            op,
            given.shape == (len(names),) and given.dtype == np.float32,
            f"scales must be {len(names)} float32",
            given,
        )
        scales = list(value_of(op, given, "scales"))
    if not all(np.isfinite(scale) and scale > 0 for scale in scales):
        raise ArgumentError(op, f"scales must be positive, got {[float(scale) for scale in scales]}")
    return scales


def _scaled_nearest(x_shape: Shape, first: int, scales: Sequence[np.float32]) -> List[Resampled]:
    """Caffe2's rule, in float32: out = int(in * scale), source = min(int(out / scale), in - 1)."""
    axes = []
    for axis, scale in enumerate(scales, first):
        size = x_shape[axis]
        outputs = np.arange(int(np.float32(size) * scale), dtype=np.float32)
        axes.append(nearest(axis, np.floor(outputs / scale), size))
    return axes


def _resized(x: TensorSpec, axes: Sequence[Resampled]) -> List[TensorSpec]:
    sizes = {one.axis: one.size for one in axes}
    return [x.with_shape([sizes.get(axis, n) for axis, n in enumerate(x.shape)])]


def _nearest_axes(op: OperatorDef, x: TensorSpec, scales: Optional[TensorSpec] = None) -> List[Resampled]:
    if op.type == "UpsampleNearest":
        return _scaled_nearest(x.shape, 2, [np.float32(op.get_int("scale", 2))] * 2)
    if op.type == "ResizeNearest3D":
        return _scaled_nearest(x.shape, 2, _caffe2_scales(op, ("temporal_scale", "height_scale", "width_scale")))
    first = 1 if channels_last(op) else 2
    return _scaled_nearest(x.shape, first, _caffe2_scales(op, ("height_scale", "width_scale"), scales))


@operator("ResizeNearest", inputs=(1, 2))
def resize_nearest(op: OperatorDef, x: TensorSpec, scales: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y[h, w] = X[int(h / height_scale), int(w / width_scale)]; sizes are int(in * scale).

    X: (N, C, H, W) or, order NHWC, (N, H, W, C). The scales default to 1; input 1, if given, holds both. Source:
    Caffe2.
    """
    require(op, x.ndim == 4, "X must have 4 dimensions", x)
    return _resized(x, _nearest_axes(op, x, scales))


@operator("UpsampleNearest")
def upsample_nearest(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X (N, C, H, W) with every pixel repeated ``scale`` (2) times in both directions. Source: Detectron."""
    require(op, x.ndim == 4, "X must have 4 dimensions", x)
    if op.get_int("scale", 2) < 1:
        raise ArgumentError(op, f"scale must be positive, got {op.get_int('scale', 2)}")
    return _resized(x, _nearest_axes(op, x))


@operator("ResizeNearest3D")
def resize_nearest_3d(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """ResizeNearest of X (N, C, T, H, W). temporal_scale is 1 or 2, height_scale and width_scale 2. Source: Caffe2."""
    require(op, x.ndim == 5, "X must have 5 dimensions", x)
    if op.get_str("order", "NCHW") != "NCHW":
        raise ArgumentError(op, f"order must be NCHW, got {op.get_str('order')!r}")
    scales = _caffe2_scales(op, ("temporal_scale", "height_scale", "width_scale"))
    if scales[0] not in (1, 2) or scales[1:] != [2, 2]:
        raise ArgumentError(op, f"temporal_scale must be 1 or 2, the others 2, got {[float(s) for s in scales]}")
    return _resized(x, _nearest_axes(op, x))


@resize_nearest.reference
@resize_nearest_3d.reference
@upsample_nearest.reference
def resize_nearest_reference(op: OperatorDef, x: Array, scales: Optional[Array] = None) -> List[Any]:
    axes = _nearest_axes(op, TensorSpec.known(x), None if scales is None else TensorSpec.known(scales))
    return [resample_exactly(x, axes)]


def _bound(axes: Callable[..., Sequence[Resampled]]) -> Tuple[Callable[[Call], Run], Any]:
    """Kernel and scratch of an operator that resamples the axes ``axes(op, *input specs)``."""

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        assert inputs[0] is not None
        return resampling_scratch(inputs[0], axes(op, *inputs))

    def bind(call: Call) -> Run:
        return bind_resampling(call.inputs[0], call.outputs[0], axes(call.op, *call.in_specs), call.scratch)

    return bind, scratch


_nearest_numpy, _nearest_scratch = _bound(_nearest_axes)
resize_nearest.kernel("NUMPY", scratch=_nearest_scratch)(_nearest_numpy)
resize_nearest_3d.kernel("NUMPY", scratch=_nearest_scratch)(_nearest_numpy)
upsample_nearest.kernel("NUMPY", scratch=_nearest_scratch)(_nearest_numpy)


def _bilinear_axes(op: OperatorDef, x: TensorSpec, scales: Optional[TensorSpec] = None) -> List[Resampled]:
    axes = []
    for axis, scale in enumerate(_caffe2_scales(op, ("height_scale", "width_scale"), scales), 2):
        size, out = x.shape[axis], int(np.float32(x.shape[axis]) * scale)
        coordinates = np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0)
        axes.append(interpolated(axis, coordinates, size, triangle, 1))
    return axes


@operator("UpsampleBilinear", inputs=(1, 2))
def upsample_bilinear(op: OperatorDef, x: TensorSpec, scales: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y is X (N, C, H, W), interpolated bilinearly with corners aligned; sizes are int(in * scale).

    height_scale and width_scale default to 1; input 1, if given, holds both. Source: Caffe2.
    """
    require_floats(op, x)
    require(op, x.ndim == 4, "X must be (N, C, H, W)", x)
    return _resized(x, _bilinear_axes(op, x, scales))


@upsample_bilinear.reference
def upsample_bilinear_reference(op: OperatorDef, x: Array, scales: Optional[Array] = None) -> List[Any]:
    axes = _bilinear_axes(op, TensorSpec.known(x), None if scales is None else TensorSpec.known(scales))
    return [resample_exactly(x, axes).astype(x.dtype)]


def axes_of(op: OperatorDef, x: TensorSpec, scales: Optional[TensorSpec] = None) -> List[Resampled]:
    """How one of these operators resamples X."""
    return (_bilinear_axes if op.type == "UpsampleBilinear" else _nearest_axes)(op, x, scales)


def _not_empty(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if outputs[0].size == 0 or inputs[0] is None or inputs[0].size == 0:
        return "there is nothing to interpolate"
    return single_or_double(op, inputs, outputs)


_bilinear_numpy, _bilinear_scratch = _bound(_bilinear_axes)
upsample_bilinear.kernel("NUMPY", supports=_not_empty, scratch=_bilinear_scratch)(_bilinear_numpy)
