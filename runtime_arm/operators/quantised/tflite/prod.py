"""TensorFlow Lite's quantised REDUCE_PROD, exact to the last bit. Source: LiteRT, kernels/reduce.cc and
internal/reference/reduce.h (QuantizedReduceProd)."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.quantised.tflite.parameters import (
    WIDE_RULE,
    affine,
    limits_of,
    multiplied,
    quantised,
)
from runtime_arm.registry.schema import axis_of, require
from runtime_arm.registry.specs import TensorSpec

_REACH = 1 << 31  # rescaled products are cut there; in TensorFlow Lite they are undefined beyond it


def _axes(op: OperatorDef, x: TensorSpec) -> Tuple[int, ...]:
    return tuple(sorted({axis_of(op, axis, x.ndim) for axis in op.get_ints("axes", range(x.ndim))}))


@quantised("QuantizedProd", dtypes=("int8", "int16"))
def quantized_prod(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """REDUCE_PROD over ``axes`` (all), which stay as 1 with ``keepdims``.

    The elements X - X_zero_point are multiplied one after the other. Each product, and the last one again, is
    multiplied by X_scale / Y_scale**(1 / n), for n elements, and rounded as sums of int16 are.
    """
    axes, keep = _axes(op, x), op.get_bool("keepdims")
    require(op, all(x.shape[axis] for axis in axes), "X is empty", x)
    for what in "XY":
        affine(op, what, x.dtype)
    return [x.with_shape([1 if axis in axes else n for axis, n in enumerate(x.shape) if keep or axis not in axes])]


@quantized_prod.reference
def quantized_prod_reference(op: OperatorDef, x: Array) -> List[Any]:
    spec = TensorSpec.known(x)
    axes, of_x, of_y = _axes(op, spec), affine(op, "X", x.dtype), affine(op, "Y", x.dtype)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    factors = x.transpose([*axes, *kept]).reshape(count, *(x.shape[axis] for axis in kept)).astype(np.int64)
    factors -= of_x.zero_point
    scale = np.float64(of_x.scale) / np.float64(of_y.scale) ** (1 / count)
    product = factors[0]
    for factor in factors[1:]:
        product = np.clip(multiplied(product * factor, scale, WIDE_RULE), -_REACH, _REACH - 1)
    steps = multiplied(product, scale, WIDE_RULE) + of_y.zero_point
    return [np.clip(steps, *limits_of(x.dtype)).astype(x.dtype).reshape(quantized_prod.shape(op, spec)[0].shape)]
