"""Repetition: Caffe2's Tile and NumpyTile, ONNX's Tile, and Expand of both."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import Operator, axis_of, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


@operator("Tile", inputs=(1, 3))
def tile(
    op: OperatorDef, x: TensorSpec, tiles: Optional[TensorSpec] = None, axis: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """X repeated ``tiles`` times along ``axis``. The second and third input, if given, replace the arguments."""
    for name, spec in (("tiles", tiles), ("axis", axis)):
        if spec is None and not op.has(name):
            raise ArgumentError(op, f"{name!r} is required, as an argument or as an input")
    return [x.with_shape([n * times for n, times in zip(x.shape, repeats_of(op, x, [tiles, axis]))])]


def repeats_of(op: OperatorDef, x: TensorSpec, extra: Sequence[Optional[TensorSpec]]) -> List[int]:
    """The number of repetitions along each dimension."""
    if op.domain or op.type == "NumpyTile":
        repeats = integers_of(op, extra[0], "repeats")
        require(
            op,
            len(repeats) == x.ndim and min(repeats, default=0) >= 0,
            f"repeats must be one per dimension, none negative, got {repeats}",
            x,
        )
        return repeats
    times, axis = (
        op.get_int(name) if spec is None else _number(op, spec, name)
        for name, spec in zip(("tiles", "axis"), [*extra, None, None])
    )
    if times < 0:
        raise ArgumentError(op, f"tiles must not be negative, got {times}")
    return [times if i == axis_of(op, axis, x.ndim) else 1 for i in range(x.ndim)]


def _number(op: OperatorDef, spec: TensorSpec, what: str) -> int:
    require(op, spec.shape == (1,), f"input {what!r} must be a vector of one integer", spec)
    return integers_of(op, spec, what)[0]


@operator("NumpyTile", inputs=2)
def numpy_tile(op: OperatorDef, x: TensorSpec, repeats: TensorSpec) -> List[TensorSpec]:
    """X repeated along each dimension as often as the second input says."""
    require(op, repeats.dtype.kind == "i", "repeats must be integers", repeats)
    return [x.with_shape([n * times for n, times in zip(x.shape, repeats_of(op, x, [repeats]))])]


@operator("Tile", domain="onnx", inputs=2)
def onnx_tile(op: OperatorDef, x: TensorSpec, repeats: TensorSpec) -> List[TensorSpec]:
    """X repeated along each dimension as often as the second input says."""
    return [x.with_shape([n * times for n, times in zip(x.shape, repeats_of(op, x, [repeats]))])]


def _add_tile_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, *extra: Array) -> List[Any]:
        return [np.tile(x, repeats_of(op, TensorSpec.known(x), [TensorSpec.known(array) for array in extra]))]

    @schema.kernel("NUMPY")
    def numpy(call: Call) -> Run:
        x, y, spec = call.inputs[0], call.outputs[0], call.in_specs[0]
        assert spec is not None
        source: List[int] = []
        target: List[int] = []
        for n, times in zip(x.shape, repeats_of(call.op, spec, call.in_specs[1:])):
            source += [n] if times == 1 else [1, n]
            target += [n] if times == 1 else [times, n]
        return copy_all([(y.reshape(target), x.reshape(source))])


_add_tile_kernels(tile)
_add_tile_kernels(numpy_tile)
_add_tile_kernels(onnx_tile)


@operator("Expand", inputs=2)
def expand(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> List[TensorSpec]:
    """X broadcast with the shape in the second input, int64. Numbers below 1 in it count as 1."""
    require(op, shape.dtype == np.int64, "the shape must be int64", shape)
    return [_broadcast(op, x, [max(n, 1) for n in integers_of(op, shape, "shape")])]


@operator("Expand", domain="onnx", inputs=2)
def onnx_expand(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> List[TensorSpec]:
    """X broadcast with the shape in the second input."""
    return [_broadcast(op, x, integers_of(op, shape, "shape"))]


def _broadcast(op: OperatorDef, x: TensorSpec, wanted: Sequence[int]) -> TensorSpec:
    ndim = max(x.ndim, len(wanted))
    left, right = _filled(x.shape, ndim), _filled(wanted, ndim)
    require(
        op,
        all(n == m or 1 in (n, m) for n, m in zip(left, right)),
        f"the input cannot be broadcast with {list(wanted)}",
        x,
    )
    return x.with_shape([m if n == 1 else n for n, m in zip(left, right)])


def _filled(shape: Sequence[int], ndim: int) -> Shape:
    return (1,) * (ndim - len(shape)) + tuple(shape)


def _add_expand_kernels(schema: Operator) -> None:
    @schema.reference
    def reference(op: OperatorDef, x: Array, shape: Array) -> List[Any]:
        spec = schema.shape(op, TensorSpec.known(x), TensorSpec.known(shape))[0]
        return [np.broadcast_to(x, spec.shape).copy()]

    @schema.kernel("NUMPY")
    def numpy(call: Call) -> Run:
        return copy_all([(call.outputs[0], call.inputs[0])])


_add_expand_kernels(expand)
_add_expand_kernels(onnx_expand)
