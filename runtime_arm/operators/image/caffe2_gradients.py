"""The gradients of Caffe2's resizing operators: a matrix resamples an axis, and its transpose makes the gradient.

Source: caffe2/operators/resize_op.cc, upsample_op.cc.
"""

from __future__ import annotations

from math import prod
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.multiply_adds import of_terms
from runtime_arm.operators.common.resampling import Resampled, fill_outside, resample_exactly
from runtime_arm.operators.common.statistics import require_floats, single_or_double
from runtime_arm.operators.image.caffe2 import axes_of, resize_nearest, resize_nearest_3d, upsample_bilinear
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec
from runtime_arm.registry.steps import in_turn, multiply

AxesOf = Callable[..., Sequence[Resampled]]  # (op, spec of X, specs of scales and sizes)


def declare_resampling(type: str, domain: str, forward: Operator, axes_of: AxesOf, doc: str) -> None:
    """Declares the gradient of an operator that resamples axes. Inputs: dY, X, and X's further inputs."""

    def shape(op: OperatorDef, dy: TensorSpec, x: TensorSpec, *rest: Optional[TensorSpec]) -> List[TensorSpec]:
        require_floats(op, dy, x)
        (y,) = forward.shape(forward_form(op), x, *rest)
        require(op, dy.shape == y.shape, f"dY must have the shape {list(y.shape)} of the output", dy, x)
        return [x]

    def axes(op: OperatorDef, inputs: Specs) -> Sequence[Resampled]:
        return axes_of(forward_form(op), *inputs[1:])

    shape.__doc__ = doc
    counts = (2, (forward.inputs[1] or 0) + 1)
    schema = operator(type, domain=domain, inputs=counts, dtypes=FLOATS, multiply_adds=of_terms(4))(shape)

    @schema.reference
    def reference(op: OperatorDef, dy: Array, x: Array, *rest: Optional[Array]) -> List[Any]:
        dx = dy.astype(np.float64)
        known = [None if array is None else TensorSpec.known(array) for array in (dy, x, *rest)]
        for one in axes(op, known):
            dx = np.moveaxis(np.tensordot(dx, _matrix(one, x.shape, np.float64), (one.axis, 0)), -1, one.axis)
        return [dx.astype(x.dtype)]

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        """The results between the axes, each of which returns to its size in X."""
        dy, x = inputs[:2]
        assert dy is not None
        assert x is not None
        shape, specs = list(dy.shape), []
        for one in axes(op, inputs)[:-1]:
            shape[one.axis] = x.shape[one.axis]
            specs.append(x.with_shape(shape))
        return specs

    @schema.kernel("NUMPY", supports=_not_empty, scratch=scratch)
    def kernel(call: Call) -> Run:
        x = call.in_specs[1]
        assert x is not None
        resampled, arrays = axes(call.op, call.in_specs), [call.inputs[0], *call.scratch, call.outputs[0]]
        steps = [multiply(*_product(one, x, a, b)) for one, a, b in zip(resampled, arrays, arrays[1:])]
        return in_turn(steps) if steps else copy_all([(call.outputs[0], call.inputs[0])])


def _matrix(one: Resampled, shape: Shape, dtype: Any) -> Array:
    """The matrix that resamples an axis of an array of this shape, (out, in); rows of 0 for places outside."""
    matrix = resample_exactly(np.eye(shape[one.axis]), [one._replace(axis=0)])
    fill_outside(matrix, [one._replace(axis=0)], 0.0)
    return np.ascontiguousarray(matrix, dtype)


def _product(one: Resampled, x: TensorSpec, source: Array, target: Array) -> Tuple[Array, Array, Array]:
    """The operands and the result of the matrix product that takes one axis back."""
    around = prod(source.shape[: one.axis]), prod(source.shape[one.axis + 1 :])
    matrix = _matrix(one, x.shape, source.dtype)
    if around[1] == 1:
        return source.reshape(around[0], -1), matrix, target.reshape(around[0], -1)
    return matrix.T, source.reshape(around[0], -1, around[1]), target.reshape(around[0], -1, around[1])


def _not_empty(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    dy = inputs[0]
    assert dy is not None
    return (
        "there is nothing to resample" if not dy.size or not outputs[0].size else single_or_double(op, inputs, outputs)
    )


for _forward, _what in (
    (resize_nearest, "over the copies of each pixel"),
    (resize_nearest_3d, "over the copies of each pixel"),
    (upsample_bilinear, "times each pixel's weights"),
):
    _doc = f"dX = the sum of dY {_what}. Arguments as for {_forward.type}."
    declare_resampling(f"{_forward.type}Gradient", "", _forward, axes_of, _doc)
