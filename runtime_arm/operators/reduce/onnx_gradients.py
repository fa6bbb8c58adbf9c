"""The gradients of ONNX's reductions, armnet's own operators. Inputs: dY, X, Y, and the axes if they are given."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.reductions import reduced_shape
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.reduce.onnx import spec_axes
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

Exact = Callable[[Any, Any, Any, int], Any]  # (x, y, dy, count) -> dx; y and dy broadcast to x


def _norm(x: Any, y: Any, dy: Any, count: int) -> Any:
    return np.where(y == 0, 0, dy * x / np.where(y == 0, 1, y))


RULES: Dict[str, Tuple[Exact, str]] = {
    "Sum": (lambda x, y, dy, count: dy, "dY"),
    "Mean": (lambda x, y, dy, count: dy / max(count, 1), "dY divided by the number of elements"),
    "Max": (lambda x, y, dy, count: np.where(x == y, dy, 0), "dY where X = Y, else 0: ties all get it"),
    "Min": (lambda x, y, dy, count: np.where(x == y, dy, 0), "dY where X = Y, else 0: ties all get it"),
    "L1": (lambda x, y, dy, count: dy * np.sign(x), "dY sign(X)"),
    "L2": (_norm, "dY X / Y, 0 where Y is 0"),
    "SumSquare": (lambda x, y, dy, count: 2 * dy * x, "2 dY X"),
    "LogSum": (lambda x, y, dy, count: dy * np.exp(-y), "dY exp(-Y)"),
    "LogSumExp": (lambda x, y, dy, count: dy * np.exp(x - y), "dY exp(X - Y)"),
}


def _declare(kind: str) -> None:
    exact, what = RULES[kind]

    def shape(
        op: OperatorDef, dy: TensorSpec, x: TensorSpec, y: TensorSpec, axes: Optional[TensorSpec] = None
    ) -> List[TensorSpec]:
        require_floats(op, dy, x, y)
        size = prod(reduced_shape(x.shape, spec_axes(op, x, axes), keepdims=True))
        require(op, dy.size == y.size == size, f"dY and Y must have {size} elements", dy, x, y)
        return [x]

    shape.__doc__ = f"dX = {what}. Arguments as for Reduce{kind}."
    schema = operator(f"Reduce{kind}Gradient", domain="armnet", inputs=(3, 4), dtypes=FLOATS)(shape)

    @schema.reference
    def reference(op: OperatorDef, dy: Array, x: Array, y: Array, axes: Optional[Array] = None) -> List[Any]:
        reduced = spec_axes(op, TensorSpec.known(x), None if axes is None else TensorSpec.known(axes))
        kept = reduced_shape(x.shape, reduced, keepdims=True)
        x64, y64, dy64 = x.astype(np.float64), y.astype(np.float64).reshape(kept), dy.astype(np.float64).reshape(kept)
        dx = exact(x64, y64, dy64, prod(x.shape[axis] for axis in reduced))
        return [np.broadcast_to(dx, x.shape).astype(x.dtype)]


for _kind in RULES:
    _declare(_kind)
