"""Views: the same elements in another shape. Nothing runs for them.

Reshape, Flatten, Squeeze, Unsqueeze (Caffe2, ONNX); ResizeLike, FlattenToVec, MergeDim, PrependDim, ExpandDims; and
Alias, EnsureCPUOutput, StopGradient, EnsureDense, which keep the shape (Caffe2).
"""

from __future__ import annotations

from typing import List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import axis_of, describe, integers_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


def product(numbers: Sequence[int]) -> int:
    """The exact product; 1 for no numbers."""
    result = 1
    for number in numbers:
        result *= number
    return result


@operator("Alias", view=True)
def alias(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X."""
    return [x]


@operator("EnsureCPUOutput", view=True)
def ensure_cpu_output(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X. In Caffe2, copies X to the CPU's memory if it is elsewhere."""
    return [x]


@operator("StopGradient", inplace={0: 0}, view=True)
def stop_gradient(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X. No gradient flows back through it."""
    return [x]


@operator("EnsureDense", inplace={0: 0}, view=True)
def ensure_dense(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X, of one dimension or more. Only dense gradients flow back through it."""
    require(op, x.ndim > 0, "the input must have a dimension", x)
    return [x]


@operator("Reshape", inputs=(1, 2), outputs=2, inplace={0: 0}, view=True)
def reshape(op: OperatorDef, x: TensorSpec, shape: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y has the shape in argument ``shape`` or in the second input. The second output is X's shape.

    A 0 copies X's dimension at its place (of an empty X it stays 0); one -1 takes what is left. The second output has
    the dtype of the shape input, else int64.
    """
    if shape is None:
        if not op.has("shape"):
            raise ArgumentError(op, "argument 'shape' is required without a second input")
        wanted: Sequence[int] = op.get_ints("shape")
    else:
        require(op, not op.has("shape"), "the shape is given twice: as an argument and as an input")
        require(op, shape.ndim == 1, "the shape must be a vector", shape)
        wanted = integers_of(op, shape, "shape")
    resolved = resolve_shape(op, x, wanted, zero_copies=x.size > 0)
    return [x.with_shape(resolved), TensorSpec.known(np.array(x.shape, np.int64 if shape is None else shape.dtype))]


@operator("Reshape", domain="onnx", inputs=2, view=True)
def onnx_reshape(op: OperatorDef, x: TensorSpec, shape: TensorSpec) -> List[TensorSpec]:
    """Y has the shape in the second input. A 0 copies X's dimension unless ``allowzero`` is set; one -1 is the rest."""
    wanted = integers_of(op, shape, "shape")
    return [x.with_shape(resolve_shape(op, x, wanted, zero_copies=not op.get_bool("allowzero")))]


def resolve_shape(op: OperatorDef, x: TensorSpec, wanted: Sequence[int], zero_copies: bool) -> Shape:
    """``wanted``, with zeros and -1 replaced. ShapeError unless it has as many elements as ``x``."""
    shape = list(wanted)
    for i, n in enumerate(shape):
        if n == 0 and zero_copies:
            require(op, i < x.ndim, f"shape {tuple(wanted)} copies dimension {i}, which X does not have", x)
            shape[i] = x.shape[i]
    open_at = [i for i, n in enumerate(shape) if n == -1]
    require(op, len(open_at) <= 1, f"shape {tuple(wanted)} has more than one -1", x)
    require(op, all(n >= -1 for n in shape), f"shape {tuple(wanted)} has a negative dimension", x)
    if open_at:
        rest = product([n for n in shape if n != -1])
        require(op, rest > 0 and x.size % rest == 0, f"shape {tuple(wanted)} cannot hold {x.size} elements", x)
        shape[open_at[0]] = x.size // rest
    require(op, product(shape) == x.size, f"shape {tuple(wanted)} does not have {x.size} elements", x)
    return tuple(shape)


@operator("ResizeLike", inputs=2, view=True)
def resize_like(op: OperatorDef, x: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
    """Y has the elements of the first input and the shape of the second, which must have as many elements."""
    require(op, x.size == like.size, "both inputs must have the same number of elements", x, like)
    return [x.with_shape(like.shape)]


@operator("Flatten", view=True)
def flatten(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y is a matrix: its rows are the dimensions before ``axis`` (1), its columns the others. No negative axis."""
    axis = op.get_int("axis", 1)
    if not 0 <= axis <= x.ndim:
        raise ArgumentError(op, f"axis {axis} is out of range; got {describe([x])}")
    return [x.with_shape((product(x.shape[:axis]), product(x.shape[axis:])))]


@operator("Flatten", domain="onnx", view=True)
def onnx_flatten(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y is a matrix: its rows are the dimensions before ``axis`` (1), its columns the others.

    A negative axis counts from the end.
    """
    axis = op.get_int("axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        raise ArgumentError(op, f"axis {axis} is out of range; got {describe([x])}")
    axis += x.ndim if axis < 0 else 0
    return [x.with_shape((product(x.shape[:axis]), product(x.shape[axis:])))]


@operator("FlattenToVec", view=True)
def flatten_to_vec(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y is the vector of all elements."""
    require(op, x.ndim > 0, "the input must have a dimension", x)
    return [x.with_shape((x.size,))]


@operator("MergeDim", inplace={0: 0}, view=True)
def merge_dim(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The first two dimensions are merged into one."""
    require(op, x.ndim >= 2, "the input must have two dimensions", x)
    return [x.with_shape((x.shape[0] * x.shape[1], *x.shape[2:]))]


@operator("PrependDim", inplace={0: 0}, view=True)
def prepend_dim(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """The first dimension is split into two, of which the first is ``dim_size``."""
    size = op.get_int("dim_size")
    require(
        op,
        size > 0 and x.ndim > 0 and x.shape[0] % size == 0,
        f"the first dimension must be divisible by dim_size {size}",
        x,
    )
    return [x.with_shape((size, x.shape[0] // size, *x.shape[1:]))]


@operator("ExpandDims", inplace={0: 0}, view=True)
def expand_dims(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Inserts dimensions of 1, so that ``dims`` are their indices in Y."""
    dims = _dims(op)
    ndim = x.ndim + len(dims)
    if dims[-1] >= ndim:
        raise ArgumentError(op, f"dims {dims} are out of range for {ndim} dimensions")
    return [x.with_shape(_inserted(x.shape, dims))]


@operator("Squeeze", inplace={0: 0}, view=True)
def squeeze(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Removes the dimensions ``dims``, which must be 1."""
    dims = _dims(op)
    if dims[-1] >= x.ndim:
        raise ArgumentError(op, f"dims {dims} are out of range for {x.ndim} dimensions")
    return [_without(op, x, dims)]


def _dims(op: OperatorDef) -> List[int]:
    dims = sorted(set(op.get_ints("dims")))
    if not dims or dims[0] < 0:
        raise ArgumentError(op, f"argument 'dims' must be a list of dimensions, none negative; got {dims}")
    return dims


def _inserted(shape: Shape, dims: Sequence[int]) -> Shape:
    result = list(shape)
    for dim in sorted(dims):
        result.insert(dim, 1)
    return tuple(result)


def _without(op: OperatorDef, x: TensorSpec, dims: Sequence[int]) -> TensorSpec:
    require(op, all(x.shape[dim] == 1 for dim in dims), f"dimensions {list(dims)} must be 1", x)
    return x.with_shape([n for dim, n in enumerate(x.shape) if dim not in dims])


@operator("Squeeze", domain="onnx", inputs=(1, 2), view=True)
def onnx_squeeze(op: OperatorDef, x: TensorSpec, axes: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Removes the dimensions in the second input; without it, all that are 1."""
    if axes is None:
        return [x.with_shape([n for n in x.shape if n != 1])]
    return [_without(op, x, [axis_of(op, axis, x.ndim, "axes") for axis in integers_of(op, axes, "axes")])]


@operator("Unsqueeze", domain="onnx", inputs=2, view=True)
def onnx_unsqueeze(op: OperatorDef, x: TensorSpec, axes: TensorSpec) -> List[TensorSpec]:
    """Inserts dimensions of 1, so that the second input holds their indices in Y."""
    given = integers_of(op, axes, "axes")
    dims = [axis_of(op, axis, x.ndim + len(given), "axes") for axis in given]
    require(op, len(set(dims)) == len(dims), f"axes {given} contain a dimension twice", x)
    return [x.with_shape(_inserted(x.shape, dims))]
