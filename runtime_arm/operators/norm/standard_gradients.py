"""The gradients of the normalisations to mean 0 and variance 1: LayerNorm, InstanceNorm, GroupNorm.

X is taken as (N, G, K, P): each of the N G groups of K P elements has a mean and an inverse deviation of its own, and a
scale for each of the G K rows. LayerNorm has rows of one element, InstanceNorm groups of one row.
"""

from __future__ import annotations

from math import prod
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.slopes import same_floats
from runtime_arm.operators.common.statistics import moments, require_floats, single_or_double
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, operator, require
from runtime_arm.registry.specs import Shape, TensorSpec

BLOCK = 1 << 16  # elements that are taken through all passes at a time, unless an image has more


class Given(NamedTuple):
    """What an operator is given, by name; ``rows`` is the shape (N, G, K, P).

    spread: the inverse deviation, or with ``deviates`` the deviation. Without statistics both are None.
    """

    x: Any
    dy: Any
    scale: Any
    mean: Any
    spread: Any
    rows: Shape
    deviates: bool = False


Read = Callable[[OperatorDef, Sequence[Any]], Given]  # from specs or arrays


def declare_standard(type: str, read: Read, inputs: Any, doc: str, outputs: Any = 3, domain: str = "") -> Operator:
    def shape(op: OperatorDef, *specs: TensorSpec) -> List[TensorSpec]:
        require_floats(op, *specs)
        given = read(op, specs)
        same_floats(op, given.x, given.dy)
        n, g, k, _ = given.rows
        require(op, given.scale is None or given.scale.size == g * k, f"the scale must have {g * k} elements", *specs)
        for statistic in (given.mean, given.spread):
            require(op, statistic is None or statistic.size == n * g, f"statistics must have {n * g} elements", *specs)
        parameter = given.scale if given.scale is not None else given.x.with_shape((g * k,))
        return [given.x, parameter, parameter]

    shape.__doc__ = doc
    schema = operator(type, domain=domain, inputs=inputs, outputs=outputs)(shape)
    schema.reference(lambda op, *arrays: _reference(op, read(op, arrays)))

    def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
        if not read(op, inputs).x.size:
            return "X is empty"
        return _order(op) or single_or_double(op, inputs, outputs)

    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return _buffers(read(op, inputs))

    schema.kernel("NUMPY", supports=supports, scratch=scratch)(lambda call: _bind(call, read(call.op, call.inputs)))
    return schema


def _order(op: OperatorDef) -> Optional[str]:
    return "only for order NCHW" if op.has("order") and channels_last(op) else None


def _in_rows(op: OperatorDef, array: Array, rows: Shape) -> Array:
    """X or dY as (N, G, K, P); with order NHWC it lies as (N, P, G, K)."""
    n, g, k, p = rows
    taken: Array = array.reshape(n, p, g, k).transpose(0, 2, 3, 1) if _order(op) else array.reshape(rows)
    return taken


def _reference(op: OperatorDef, given: Given) -> List[Any]:
    n, g, k, _ = given.rows
    x, dy = (_in_rows(op, array.astype(np.float64), given.rows) for array in (given.x, given.dy))
    if given.mean is None:
        mean, variance = moments(x, (2, 3))
        inverse = 1 / np.sqrt(variance + op.get_float("epsilon", 1e-5))
    else:
        mean, inverse = (s.astype(np.float64).reshape(n, g, 1, 1) for s in (given.mean, given.spread))
        inverse = 1 / inverse if given.deviates else inverse
    normal = (x - mean) * inverse
    terms = dy if given.scale is None else dy * given.scale.astype(np.float64).reshape(g, k, 1)
    count = max(x.shape[2] * x.shape[3], 1)
    means = (d.sum(axis=(2, 3), keepdims=True) / count for d in (terms, terms * normal))
    dx = inverse * (terms - next(means) - normal * next(means))
    if _order(op):
        dx = dx.transpose(0, 3, 1, 2)
    parameter = (g * k,) if given.scale is None else given.scale.shape
    sums = ((dy * normal).sum(axis=(0, 3)), dy.sum(axis=(0, 3)))
    results = [dx.reshape(given.x.shape), *(total.reshape(parameter) for total in sums)]
    return [result.astype(given.x.dtype) for result in results]


def _images(rows: Shape) -> int:
    """How many images are taken at a time."""
    return max(min(rows[0], BLOCK // max(prod(rows[1:]), 1)), 1)


def _buffers(given: Given) -> List[TensorSpec]:
    n, g, k, p = given.rows
    dtype, some = given.x.dtype, _images(given.rows)
    room = TensorSpec((some, g, k, p), dtype)
    rows, groups = TensorSpec((n, g, k), dtype), TensorSpec((n, g), dtype)
    return [room, rows, rows, rows, groups, groups, groups, groups]


def _bind(call: Call, given: Given) -> Run:
    n, g, k, p = given.rows
    x, dy, dx = (array.reshape(given.rows) for array in (given.x, given.dy, call.outputs[0]))
    room, products, sums, scaled, inverse, first, second, centre = call.scratch
    mean, spread = (centre, inverse) if given.mean is None else (given.mean.reshape(n, g), given.spread.reshape(n, g))
    epsilon = x.dtype.type(call.op.get_float("epsilon", 1e-5))
    scale = None if given.scale is None else given.scale.reshape(g, k)
    totals = [(part, out.reshape(g, k)) for part, out in zip((products, sums), call.outputs[1:])]
    some, share = _images(given.rows), x.dtype.type(1 / (k * p))
    cuts = [slice(start, min(start + some, n)) for start in range(0, n, some)]

    def gather(part: Array, out: Array) -> None:
        """out = the mean over each group of the part's rows times their scale."""
        rows = part if scale is None else np.multiply(part, scale, out=scaled)
        np.add.reduce(rows, axis=2, out=out)
        np.multiply(out, share, out=out)

    def measure(cut: slice) -> None:
        """The mean and the inverse deviation of some images."""
        terms = room[: cut.stop - cut.start]
        np.add.reduce(x[cut], axis=(2, 3), out=mean[cut])
        np.multiply(mean[cut], share, out=mean[cut])
        np.subtract(x[cut], mean[cut, :, None, None], out=terms)
        np.multiply(terms, terms, out=terms)
        np.add.reduce(terms, axis=(2, 3), out=inverse[cut])
        np.multiply(inverse[cut], share, out=inverse[cut])
        np.add(inverse[cut], epsilon, out=inverse[cut])
        np.sqrt(inverse[cut], out=inverse[cut])
        np.divide(1, inverse[cut], out=inverse[cut])

    def run() -> None:
        if given.mean is not None:
            np.divide(1, spread, out=inverse) if given.deviates else np.copyto(inverse, spread)
        for cut in cuts:
            if given.mean is None:
                measure(cut)
            normal, terms = dx[cut], room[: cut.stop - cut.start]
            np.subtract(x[cut], mean[cut, :, None, None], out=normal)
            np.multiply(normal, inverse[cut, :, None, None], out=normal)
            np.multiply(dy[cut], normal, out=terms)
            np.add.reduce(terms, axis=3, out=products[cut])
            np.add.reduce(dy[cut], axis=3, out=sums[cut])
        gather(sums, first)
        gather(products, second)
        for cut in cuts:
            part, terms = dx[cut], room[: cut.stop - cut.start]
            np.multiply(part, second[cut, :, None, None], out=part)
            np.add(part, first[cut, :, None, None], out=part)
            if scale is None:
                np.subtract(dy[cut], part, out=part)
            else:
                np.multiply(dy[cut], scale[:, :, None], out=terms)
                np.subtract(terms, part, out=part)
            np.multiply(part, inverse[cut, :, None, None], out=part)
        for part, out in totals:
            np.add.reduce(part, axis=0, out=out)

    return run


def _optional(inputs: Sequence[Any], index: int) -> Any:
    return inputs[index] if len(inputs) > index else None


def _layer(op: OperatorDef, inputs: Sequence[Any]) -> Given:
    dy, _, mean, deviation, x = inputs[:5]
    axis = axis_of(op, op.get_int("axis", 1), x.ndim)
    affine = op.get_bool("elementwise_affine")
    require(op, not affine or len(inputs) == 6, "with elementwise_affine there must be a scale, the sixth input")
    rows = (prod(x.shape[:axis]), 1, prod(x.shape[axis:]), 1)
    return Given(x, dy, _optional(inputs, 5), mean, deviation, rows, deviates=True)


def _instance(op: OperatorDef, inputs: Sequence[Any]) -> Given:
    x, scale, _, dy = inputs[:4]
    require(op, x.ndim >= 2, "X needs channels")
    last = channels_last(op)
    channels, image = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
    mean, spread = inputs[4:] if len(inputs) == 6 else (None, None)  # a mean alone does not save the sums
    return Given(x, dy, scale, mean, spread, (x.shape[0], channels, 1, prod(image)))


def _group(op: OperatorDef, inputs: Sequence[Any]) -> Given:
    dy, x, gamma, _, mean, inverse = inputs
    require(op, x.ndim >= 2, "X needs channels")
    last, count = channels_last(op), op.get_int("group", 32)
    channels, image = (x.shape[-1], x.shape[1:-1]) if last else (x.shape[1], x.shape[2:])
    return Given(x, dy, gamma, mean, inverse, (x.shape[0], count, channels // count, prod(image)))


RULE = """dX = s (g - mean of g - x^ mean of g x^), with x^ = (X - mean) s, s = 1 / deviation, g = dY scale.

    dscale = the sum of dY x^, dbias = the sum of dY."""

declare_standard(
    "LayerNormGradient", _layer, (5, 6), f"{RULE} Inputs: dY, Y, mean, deviation, X, the scale if any.", (1, 3)
)
declare_standard(
    "InstanceNormGradient", _instance, (4, 6), f"{RULE} Inputs: X, scale, bias, dY, and mean and s if saved."
)
declare_standard("GroupNormGradient", _group, 6, f"{RULE} Inputs: dY, X, scale, bias, mean, s.")
