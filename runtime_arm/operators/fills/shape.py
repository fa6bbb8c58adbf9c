"""Shape arithmetic. Values that depend only on shapes are computed when the net is planned."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require, value_of
from runtime_arm.registry.specs import Shape, TensorSpec


def _known(numbers: Sequence[int]) -> List[TensorSpec]:
    return [TensorSpec.known(np.array(numbers, np.int64))]


def _shape_of(op: OperatorDef, shape: Shape) -> Sequence[int]:
    axes = op.get_ints("axes")
    if not all(0 <= axis < len(shape) for axis in axes):
        raise ArgumentError(op, f"axes {axes} are out of range for {len(shape)} dimensions (none may be negative)")
    return [shape[axis] for axis in axes] if axes else shape


@operator("Shape")
def shape_(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X's dimensions, int64; with ``axes``, only these."""
    return _known(_shape_of(op, x.shape))


@shape_.reference
def shape_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.array(_shape_of(op, x.shape), np.int64)]


def _bounded(op: OperatorDef, shape: Shape) -> Shape:
    stop = op.get_int("end") if op.has("end") else len(shape)
    return shape[slice(op.get_int("start", 0), stop)]


@operator("Shape", domain="onnx")
def onnx_shape(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """X's dimensions from ``start`` (0) to before ``end`` (the last one included by default), int64.

    Negative bounds count from the end.
    """
    return _known(_bounded(op, x.shape))


@onnx_shape.reference
def onnx_shape_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.array(_bounded(op, x.shape), np.int64)]


@operator("Size")
def size(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The number of X's elements, an int64 without dimensions."""
    return [TensorSpec.known(np.array(x.size, np.int64))]


@size.reference
def size_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.array(x.size, np.int64)]


@operator("IsEmpty")
def is_empty(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Whether X has no elements, a bool without dimensions."""
    return [TensorSpec.known(np.array(x.size == 0))]


@is_empty.reference
def is_empty_reference(op: OperatorDef, x: Array) -> List[Any]:
    return [np.array(x.size == 0)]


@operator("HasElements", inputs=(1, None))
def has_elements(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Whether any input has elements, a bool without dimensions."""
    return [TensorSpec.known(np.array(any(x.size > 0 for x in inputs)))]


@has_elements.reference
def has_elements_reference(op: OperatorDef, *inputs: Array) -> List[Any]:
    return [np.array(any(x.size > 0 for x in inputs))]


@operator("LengthsToShape")
def lengths_to_shape(op: OperatorDef, lengths: TensorSpec) -> List[TensorSpec]:
    """(number of lengths, their common value), int32. All lengths must be equal."""
    require(op, lengths.ndim == 1 and lengths.dtype == np.int32, "lengths must be a vector of int32", lengths)
    require(op, lengths.shape[0] > 0, "there must be at least one length", lengths)
    return [TensorSpec((2,), np.int32)]


@lengths_to_shape.reference
def lengths_to_shape_reference(op: OperatorDef, lengths: Array) -> List[Any]:
    require(op, bool(np.all(lengths == lengths[0])), f"all lengths must be equal, got {lengths.tolist()}")
    return [np.array([lengths.size, lengths[0]], np.int32)]


@operator("Range", inputs=(1, 3))
def range_(op: OperatorDef, *bounds: Optional[TensorSpec]) -> List[TensorSpec]:
    """start, start + step, ... to before stop. Inputs, one number each: (stop), (start, stop) or (start, stop, step).

    The number of elements is (stop - start) / step, rounded up for floats. Integers are divided towards zero, and 1 is
    added if the product is less than the span; as in Caffe2, a negative integer step therefore leaves out a last,
    partial step.
    """
    specs = [spec for spec in bounds if spec is not None]
    require(
        op,
        len(specs) == len(bounds) and all(spec.size == 1 for spec in specs),
        "each input must be one number",
        *bounds,
    )
    dtypes = {spec.dtype.name for spec in specs}
    require(
        op,
        len(dtypes) == 1 and dtypes <= {"int32", "int64", "float32", "float64"},
        "inputs must be all int32, all int64, all float32 or all float64",
        *bounds,
    )
    values = [value_of(op, spec, "bounds").reshape(-1)[0].item() for spec in specs]
    return [TensorSpec((_count(op, values),), specs[0].dtype)]


def _start_stop_step(values: Sequence[Any]) -> Sequence[Any]:
    return [(0, values[0], 1), (*values, 1), values][len(values) - 1]


def _count(op: OperatorDef, values: Sequence[Any]) -> int:
    start, stop, step = _start_stop_step(values)
    require(op, step != 0, "the step must not be 0")
    span = stop - start
    if isinstance(span, float):
        require(op, bool(np.isfinite(span / step)), f"{start} to {stop} by {step} is not a finite range")
        return max(int(np.ceil(span / step)), 0)
    whole = abs(span) // abs(step) * (1 if (span < 0) == (step < 0) else -1)
    return max(int(whole + (whole * step < span)), 0)


@range_.reference
def range_reference(op: OperatorDef, *bounds: Array) -> List[Any]:
    dtype = bounds[0].dtype
    values = [bound.reshape(-1)[0] for bound in bounds]
    start, _, step = _start_stop_step(values)
    count = _count(op, [value.item() for value in values])
    return [(start + np.arange(count).astype(dtype) * step).astype(dtype)]
