"""The gradients of Caffe2's reductions. Source: caffe2/operators/reduce_ops.cc, reduce_front_back_sum_mean_ops.cc."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import only_for
from runtime_arm.operators.common.reductions import reduced_shape
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.reduce.caffe2 import AxesOf, all_axes, back_axes, front_axes, named_axes
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import integers_of, operator, require
from runtime_arm.registry.specs import TensorSpec

Exact = Callable[[Any, Any, Any, int], Any]  # (x, y, dy, count) -> dx, in float64; y and dy broadcast to x
Into = Callable[..., None]  # (x, y, dy, dx, count, mask)


def _whole(x: Array, y: Array, dy: Array, dx: Array, count: int, mask: Array) -> None:
    np.copyto(dx, dy)


def _share(x: Array, y: Array, dy: Array, dx: Array, count: int, mask: Array) -> None:
    np.multiply(dy, dx.dtype.type(1 / max(count, 1)), out=dx)


def _where_equal(x: Array, y: Array, dy: Array, dx: Array, count: int, mask: Array) -> None:
    np.equal(x, y, out=mask)
    np.multiply(dy, mask, out=dx)


def _by_sign(x: Array, y: Array, dy: Array, dx: Array, count: int, mask: Array) -> None:
    np.sign(x, out=dx)
    np.multiply(dx, dy, out=dx)


def _over_norm(x: Array, y: Array, dy: Array, dx: Array, count: int, mask: Array) -> None:
    np.equal(y, 0, out=mask)
    np.add(y, mask, out=dx)
    np.divide(x, dx, out=dx)
    np.add(dx, mask, out=dx)
    np.multiply(dx, dy, out=dx)


RULES: Dict[str, Tuple[Exact, Into, str]] = {
    "Sum": (lambda x, y, dy, count: dy, _whole, "dY"),
    "Mean": (lambda x, y, dy, count: dy / max(count, 1), _share, "dY divided by the number of elements reduced to it"),
    "Max": (lambda x, y, dy, count: np.where(x == y, dy, 0), _where_equal, "dY where X = Y, else 0: ties all get dY"),
    "L1": (lambda x, y, dy, count: np.sign(x) * dy, _by_sign, "dY sign(X)"),
    "L2": (
        lambda x, y, dy, count: np.where(y == 0, dy, dy * x / np.where(y == 0, 1, y)),
        _over_norm,
        "dY X / Y, dY where Y is 0",
    ),
}


def _declare(type: str, order: str, rule: str, axes_of: AxesOf, may_have_lengths: bool = False) -> None:
    """Declares the gradient of a reduction. order: its inputs, "dy x y"."""
    exact, into, what = RULES[rule]
    names = order.split()

    def shape(op: OperatorDef, *specs: TensorSpec) -> List[TensorSpec]:
        given = dict(zip(names, specs))
        if order == "dy x":
            given["x"] = _of_shape(op, given["x"], given["dy"])
        x, dy = given["x"], given["dy"]
        require_floats(op, *given.values())
        axes = axes_of(op, x.ndim)
        require(op, all(axis < x.ndim for axis in axes), "X has too few dimensions", x)
        size = prod(reduced_shape(x.shape, axes, keepdims=True))
        require(op, dy.size == size, f"dY must have {size} elements, one for each result", *specs)
        require(op, "y" not in given or given["y"].size == size, "Y must have dY's size", *specs)
        for lengths in specs[len(names) :]:
            require(op, lengths.dtype == np.int32 and lengths.size == size, "lengths must be one int32 per result")
        return [x]

    shape.__doc__ = f"Inputs: {order}. dX = {what}. Arguments as for the reduction."
    counts = (len(names), len(names) + may_have_lengths)
    schema = operator(type, inputs=counts, dtypes=FLOATS)(shape)

    def fitted(op: OperatorDef, arrays: Sequence[Array]) -> Tuple[List[Array], int]:
        """X, Y and dY, of which the last two broadcast to X, and how many elements are reduced to one."""
        given = dict(zip(names, arrays))
        x = given["x"]
        if x.dtype == np.int64:
            x = np.broadcast_to(np.zeros((), given["dy"].dtype), tuple(x))
        axes = axes_of(op, x.ndim)
        kept = reduced_shape(x.shape, axes, keepdims=True)
        dy = given["dy"].reshape(kept)
        return [x, given.get("y", dy).reshape(kept), dy], prod(x.shape[axis] for axis in axes)

    @schema.reference
    def reference(op: OperatorDef, *arrays: Array) -> List[Any]:
        (x, y, dy), count = fitted(op, arrays)
        x64, y64, dy64 = (a.astype(np.float64) for a in (x, y, dy))
        if len(arrays) > len(names):
            lengths = arrays[-1].reshape(dy.shape)
            inside = _within(x.shape, axes_of(op, x.ndim), lengths)
            dx = np.where(inside, exact(x64, y64, dy64, 1), 0) / (np.maximum(lengths, 1) if rule == "Mean" else 1)
        else:
            dx = np.broadcast_to(exact(x64, y64, dy64, count), x.shape)
        return [dx.astype(x.dtype)]

    def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
        x = inputs[names.index("x")]
        if x is not None and x.dtype == np.int64:
            return "only with X itself, not its shape"
        return "only without lengths" if len(inputs) > len(names) else only_for(FLOAT32_64)(op, inputs, outputs)

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return [TensorSpec(outputs[0].shape, np.bool_)] if rule in ("Max", "L2") else []

    @schema.kernel("NUMPY", supports=supports, scratch=scratch)
    def kernel(call: Call) -> Run:
        (x, y, dy), count = fitted(call.op, call.inputs)
        mask = call.scratch[0] if call.scratch else x
        return lambda: into(x, y, dy, call.outputs[0], count, mask)


def _of_shape(op: OperatorDef, x: TensorSpec, dy: TensorSpec) -> TensorSpec:
    """X, or what has the shape that old nets give in its place."""
    if x.ndim != 1 or x.dtype != np.int64:
        return x
    shape = integers_of(op, x, "shape")
    require(op, all(size >= 0 for size in shape), "a shape must not be negative", x)
    return dy.with_shape(tuple(shape))


def _within(shape: Sequence[int], axes: Sequence[int], lengths: Array) -> Array:
    """Which elements count: of those that are reduced together the first ``lengths``."""
    place = np.arange(prod(shape[axis] for axis in axes)).reshape([n if i in axes else 1 for i, n in enumerate(shape)])
    return place < lengths


for _rule in ("Sum", "Mean", "Max", "L1", "L2"):
    _declare(f"Reduce{_rule}Gradient", "dy x y", _rule, named_axes)
_declare("ReduceMinGradient", "dy x y", "Max", named_axes)
for _side, _axes_of in (("Front", front_axes), ("Back", back_axes)):
    for _rule in ("Sum", "Mean"):
        _declare(f"Reduce{_side}{_rule}Gradient", "dy x", _rule, _axes_of, may_have_lengths=True)
    _declare(f"Reduce{_side}MaxGradient", "dy x y", "Max", _axes_of, may_have_lengths=True)
_declare("AveragedLossGradient", "x dy", "Mean", all_axes)
_declare("RowwiseMaxGradient", "x y dy", "Max", lambda op, ndim: (2,))
_declare("ColwiseMaxGradient", "x y dy", "Max", lambda op, ndim: (1,))


@operator("SumElementsGradient", inputs=2, dtypes=FLOATS)
def sum_elements_gradient(op: OperatorDef, x: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
    """dX = dY everywhere; with ``average``, divided by the number of elements."""
    require_floats(op, x, dy)
    require(op, dy.size == 1, "dY must be one number", x, dy)
    return [x]


@sum_elements_gradient.reference
def sum_elements_gradient_reference(op: OperatorDef, x: Array, dy: Array) -> List[Any]:
    divisor = max(x.size, 1) if op.get_bool("average") else 1
    return [np.full(x.shape, dy.astype(np.float64).reshape(()) / divisor).astype(x.dtype)]


@sum_elements_gradient.kernel("NUMPY", supports=only_for(FLOAT32_64))
def sum_elements_gradient_numpy(call: Call) -> Run:
    dy, dx = call.inputs[1].reshape(()), call.outputs[0]
    factor = dx.dtype.type(1 / max(dx.size, 1) if call.op.get_bool("average") else 1)
    return lambda: np.multiply(dy, factor, out=dx)


@operator("MomentsGradient", inputs=4, dtypes=FLOATS)
def moments_gradient(
    op: OperatorDef, dmean: TensorSpec, dvariance: TensorSpec, x: TensorSpec, mean: TensorSpec
) -> List[TensorSpec]:
    """dX = (dmean + 2 (X - mean) dvariance) / n, where n elements have one mean. Arguments as for Moments."""
    require_floats(op, dmean, dvariance, x, mean)
    size = prod(reduced_shape(x.shape, named_axes(op, x.ndim), keepdims=True))
    sizes = {spec.size for spec in (dmean, dvariance, mean)}
    require(op, sizes == {size}, f"mean and gradients must have {size} elements", dmean, dvariance, x, mean)
    return [x]


@moments_gradient.reference
def moments_gradient_reference(op: OperatorDef, dmean: Array, dvariance: Array, x: Array, mean: Array) -> List[Any]:
    kept = reduced_shape(x.shape, named_axes(op, x.ndim), keepdims=True)
    first, second, centre = (array.astype(np.float64).reshape(kept) for array in (dmean, dvariance, mean))
    return [((first + 2 * (x - centre) * second) * (prod(kept) / max(x.size, 1))).astype(x.dtype)]
