"""The gradients of Caffe2's resizing operators: what resamples an axis is a matrix, and back goes its transpose.

Source: caffe2/operators/resize_op.cc, upsample_op.cc.
"""

from __future__ import annotations

from math import prod
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.multiply_adds import of_terms
from runtime_arm.operators.common.resampling import Resampled, resample_exactly
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.operators.image.caffe2 import axes_of, resize_nearest, resize_nearest_3d, upsample_bilinear
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec


def _declare(forward: Operator, doc: str) -> None:
    def shape(op: OperatorDef, dy: TensorSpec, x: TensorSpec, *scales: TensorSpec) -> List[TensorSpec]:
        require_floats(op, dy, x)
        (y,) = forward.shape(_forward(op), x, *scales)
        require(op, dy.shape == y.shape, f"dY must have the shape {list(y.shape)} of the output", dy, x)
        return [x]

    shape.__doc__ = doc
    counts = (2, 3) if forward.inputs[1] == 2 else 2
    schema = operator(f"{forward.type}Gradient", inputs=counts, dtypes=FLOATS, multiply_adds=of_terms(4))(shape)

    @schema.reference
    def reference(op: OperatorDef, dy: Array, x: Array, *scales: Array) -> List[Any]:
        dx = dy.astype(np.float64)
        for one in axes_of(_forward(op), TensorSpec.known(x), *(TensorSpec.known(array) for array in scales)):
            dx = np.moveaxis(np.tensordot(dx, _matrix(one, x.shape, np.float64), (one.axis, 0)), -1, one.axis)
        return [dx.astype(x.dtype)]

    @schema.kernel("NUMPY", supports=_not_empty, scratch=_between)
    def kernel(call: Call) -> Run:
        x = call.in_specs[1]
        assert x is not None
        axes = axes_of(_forward(call.op), x, *call.in_specs[2:])
        arrays = [call.inputs[0], *call.scratch, call.outputs[0]]
        steps = [_product(one, x, source, target) for one, source, target in zip(axes, arrays, arrays[1:])]

        def run() -> None:
            for left, right, out in steps:
                np.matmul(left, right, out=out)

        return run


def _forward(op: OperatorDef) -> OperatorDef:
    """The operator whose gradient this is, for its arguments."""
    return op.replace(type=op.type[: -len("Gradient")])


def _matrix(one: Resampled, shape: Shape, dtype: Any) -> Array:
    """The matrix that resamples an axis of an array of this shape, (out, in)."""
    identity = np.eye(shape[one.axis])
    return np.ascontiguousarray(resample_exactly(identity, [one._replace(axis=0)]), dtype)


def _product(one: Resampled, x: TensorSpec, source: Array, target: Array) -> Sequence[Array]:
    """The operands and the result of the matrix product that takes one axis back."""
    around = prod(source.shape[: one.axis]), prod(source.shape[one.axis + 1 :])
    matrix = _matrix(one, x.shape, source.dtype)
    if around[1] == 1:
        return source.reshape(around[0], -1), matrix, target.reshape(around[0], -1)
    return matrix.T, source.reshape(around[0], -1, around[1]), target.reshape(around[0], -1, around[1])


def _between(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """What lies between the axes, each of which is taken back to its size in X."""
    dy, x = inputs[:2]
    assert dy is not None
    assert x is not None
    shape, specs = list(dy.shape), []
    for one in axes_of(_forward(op), x, *inputs[2:])[:-1]:
        shape[one.axis] = x.shape[one.axis]
        specs.append(x.with_shape(shape))
    return specs


def _not_empty(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    empty = any(spec is not None and spec.size == 0 for spec in inputs)
    return "there is nothing to resample" if empty else single_or_double(op, inputs, outputs)


_declare(resize_nearest, "dX = the sum of dY over the copies of each pixel. Arguments as for ResizeNearest.")
_declare(resize_nearest_3d, "dX = the sum of dY over the copies of each pixel. Arguments as for ResizeNearest3D.")
_declare(upsample_bilinear, "dX = the sum of dY times each pixel's weights. Arguments as for UpsampleBilinear.")
