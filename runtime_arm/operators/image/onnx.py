"""ONNX's Resize."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.resampling import (
    Resampled,
    bind_resampling,
    cubic,
    fill_outside,
    interpolated,
    nearest,
    resample_exactly,
    resampling_scratch,
    stretched,
    triangle,
)
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import axis_of, integers_of, operator, require, value_of
from runtime_arm.registry.specs import TensorSpec

_AXIS_NBYTES = 64  # per element of an axis: its coordinate, an index and a weight per tap


class Extent(NamedTuple):
    """How long an axis becomes: ``wanted`` elements (a fraction if scaled), rounded to ``size``; the region of X."""

    wanted: float
    size: int
    start: float = 0.0
    end: float = 1.0


def _half_pixel(o: Array, n: int, extent: Extent) -> Array:
    return (o + 0.5) * n / extent.wanted - 0.5


def _half_pixel_symmetric(o: Array, n: int, extent: Extent) -> Array:
    return n / 2 * (1 - extent.size / extent.wanted) + _half_pixel(o, n, extent)


def _pytorch_half_pixel(o: Array, n: int, extent: Extent) -> Array:
    return _half_pixel(o, n, extent) if extent.size > 1 else o * 0.0


def _align_corners(o: Array, n: int, extent: Extent) -> Array:
    return o * (n - 1) / (extent.wanted - 1) if extent.wanted != 1 else o * 0.0


def _asymmetric(o: Array, n: int, extent: Extent) -> Array:
    return o * n / extent.wanted


def _tf_crop_and_resize(o: Array, n: int, extent: Extent) -> Array:
    if extent.size <= 1:
        return o * 0.0 + 0.5 * (extent.start + extent.end) * (n - 1)
    return extent.start * (n - 1) + o * (extent.end - extent.start) * (n - 1) / (extent.wanted - 1)


# each gives the coordinate of output o in an input axis of n elements
_COORDINATES: Dict[str, Callable[[Array, int, Extent], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_crop_and_resize": _tf_crop_and_resize,
}
_ROUNDING: Dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
_CROP = "tf_crop_and_resize"


def _choice(op: OperatorDef, name: str, choices: Sequence[str], default: str) -> str:
    chosen = op.get_str(name, default)
    if chosen not in choices:
        raise ArgumentError(op, f"{name} must be one of {', '.join(choices)}, got {chosen!r}")
    return chosen


def _kernel(op: OperatorDef) -> Optional[Tuple[Callable[[Array], Array], int]]:
    """The interpolation kernel and its radius; None for the nearest element."""
    mode = _choice(op, "mode", ("nearest", "linear", "cubic"), "nearest")
    if mode == "cubic":
        return cubic(op.get_float("cubic_coeff_a", -0.75)), 2
    return (triangle, 1) if mode == "linear" else None


def _present(spec: Optional[TensorSpec]) -> bool:
    return spec is not None and spec.shape != (0,)


def _extents(
    op: OperatorDef, x: TensorSpec, roi: Optional[TensorSpec], scales: Optional[TensorSpec], sizes: Optional[TensorSpec]
) -> Dict[int, Extent]:
    """The extent of each axis that the operator names."""
    axes = [axis_of(op, axis, x.ndim) for axis in op.get_ints("axes", range(x.ndim))]
    require(op, _present(scales) != _present(sizes), "give either scales or sizes", x, scales, sizes)
    lengths = [x.shape[axis] for axis in axes]
    if _present(scales):
        factors = value_of(op, scales, "scales").astype(np.float64).reshape(-1).tolist()
        positive = bool(np.all(np.isfinite(factors))) and min(factors, default=1) > 0
        require(op, positive, f"scales must be positive, got {factors}")
        _require_length(op, "scales", len(factors), len(axes))
        extents = [Extent(n * factor, int(np.float32(n) * np.float32(factor))) for n, factor in zip(lengths, factors)]
    else:
        targets = integers_of(op, sizes, "sizes")
        _require_length(op, "sizes", len(targets), len(axes))
        require(op, all(size > 0 for size in targets), f"sizes must be positive, got {targets}")
        extents = _fitted(op, lengths, targets)
    if op.get_str("coordinate_transformation_mode", "half_pixel") == _CROP:
        region = value_of(op, roi, "roi").astype(np.float64).reshape(-1).tolist()
        _require_length(op, "roi", len(region), 2 * len(axes))
        extents = [
            extent._replace(start=start, end=end) for extent, start, end in zip(extents, region, region[len(axes) :])
        ]
    return dict(zip(axes, extents))


def _require_length(op: OperatorDef, what: str, length: int, wanted: int) -> None:
    require(op, length == wanted, f"{what} must have {wanted} elements, got {length}")


def _fitted(op: OperatorDef, lengths: Sequence[int], sizes: Sequence[int]) -> List[Extent]:
    """The extents for ``sizes``. With keep_aspect_ratio_policy, the smallest or largest scale holds for all axes."""
    policy = _choice(op, "keep_aspect_ratio_policy", ("stretch", "not_larger", "not_smaller"), "stretch")
    if policy == "stretch" or not lengths:
        return [Extent(size, size) for size in sizes]
    require(op, all(lengths), f"X must have elements for an aspect ratio, got sizes {list(lengths)}")
    scale = (min if policy == "not_larger" else max)(size / n for size, n in zip(sizes, lengths))
    return [Extent(scale * n, int(scale * n + 0.5)) for n in lengths]


def axes_of(
    op: OperatorDef,
    x: TensorSpec,
    roi: Optional[TensorSpec] = None,
    scales: Optional[TensorSpec] = None,
    sizes: Optional[TensorSpec] = None,
) -> List[Resampled]:
    """The axes that change."""
    resampled, extents = [], _extents(op, x, roi, scales, sizes)
    longest = max((extent.size for extent in extents.values()), default=0)
    require_memory(longest * _AXIS_NBYTES, f"{op.signature()}: an axis of {longest} elements")
    for axis, extent in extents.items():
        n = x.shape[axis]
        if (extent.wanted, extent.size, extent.start, extent.end) != (n, n, 0, 1):
            require(
                op,
                n > 0 or extent.size == 0,
                f"axis {axis} is empty and cannot be resized to {extent.size}",
                x,
            )
            resampled.append(_resample(op, axis, n, extent))
    return resampled


def _resample(op: OperatorDef, axis: int, n: int, extent: Extent) -> Resampled:
    mode = _choice(op, "coordinate_transformation_mode", tuple(_COORDINATES), "half_pixel")
    coordinates = _COORDINATES[mode](np.arange(extent.size, dtype=np.float64), n, extent)
    kernel = _kernel(op)
    if kernel is None:
        rounding = _choice(op, "nearest_mode", tuple(_ROUNDING), "round_prefer_floor")
        one = nearest(axis, _ROUNDING[rounding](coordinates), n)
    else:
        factor = max(n / extent.wanted, 1.0) if op.get_bool("antialias") else 1.0
        one = interpolated(
            axis,
            coordinates,
            n,
            stretched(kernel[0], factor),
            factor * kernel[1],
            exclude_outside=op.get_bool("exclude_outside"),
        )
    outside = (coordinates < 0) | (coordinates > n - 1)
    return one._replace(outside=outside) if mode == _CROP and outside.any() else one


@operator("Resize", domain="onnx", inputs=(2, 4))
def resize(
    op: OperatorDef,
    x: TensorSpec,
    roi: Optional[TensorSpec] = None,
    scales: Optional[TensorSpec] = None,
    sizes: Optional[TensorSpec] = None,
) -> List[TensorSpec]:
    """X interpolated along ``axes`` (all) to floor(in * scale) or ``sizes`` elements, as in ONNX from opset 19 on.

    mode: nearest (rounded by nearest_mode), linear, cubic (cubic_coeff_a); ``antialias`` widens both kernels when
    shrinking. coordinate_transformation_mode: where an output lies in the input; tf_crop_and_resize takes the region
    ``roi``, and extrapolation_value outside X. exclude_outside: elements beyond the ends are left out, not repeated.
    keep_aspect_ratio_policy: stretch, not_larger, not_smaller. Integers are rounded, ties to even, and saturate.
    """
    mode = _choice(op, "mode", ("nearest", "linear", "cubic"), "nearest")
    require(op, mode == "nearest" or x.dtype.kind in "fiu", f"mode {mode} needs numbers", x)
    resampled = {one.axis: one.size for one in axes_of(op, x, roi, scales, sizes)}
    return [x.with_shape([resampled.get(axis, n) for axis, n in enumerate(x.shape)])]


@resize.reference
def resize_reference(
    op: OperatorDef,
    x: Array,
    roi: Optional[Array] = None,
    scales: Optional[Array] = None,
    sizes: Optional[Array] = None,
) -> List[Any]:
    specs = [None if operand is None else TensorSpec.known(operand) for operand in (roi, scales, sizes)]
    axes = axes_of(op, TensorSpec.known(x), *specs)
    y = resample_exactly(x, axes)
    if x.dtype.kind in "iu" and y.dtype != x.dtype:
        limits = np.iinfo(x.dtype)
        y = np.clip(np.rint(y), limits.min, limits.max)
    y = y.astype(x.dtype)
    fill_outside(y, axes, op.get_float("extrapolation_value", 0.0))
    return [y]


def _elements_or_floats(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if outputs[0].size == 0:
        return "there is nothing to compute"
    return None if op.get_str("mode", "nearest") == "nearest" else single_or_double(op, inputs, outputs)


def _resize_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    assert inputs[0] is not None
    return resampling_scratch(inputs[0], axes_of(op, inputs[0], *inputs[1:]))


@resize.kernel("NUMPY", supports=_elements_or_floats, scratch=_resize_scratch)
def resize_numpy(call: Call) -> Run:
    assert call.in_specs[0] is not None
    axes = axes_of(call.op, call.in_specs[0], *call.in_specs[1:])
    y, value = call.outputs[0], call.op.get_float("extrapolation_value", 0.0)
    interpolate = bind_resampling(call.inputs[0], y, axes, call.scratch)
    if all(one.outside is None for one in axes):
        return interpolate

    def run() -> None:
        interpolate()
        fill_outside(y, axes, value)

    return run
