"""Resampling along axes: which input elements make an output element, with which weights, and kernels that apply this.

Every interpolation here is separable, so axes are resampled one after the other, each by y[o] = sum over taps k of
weights[k, o] * x[indices[k, o]].
"""

from __future__ import annotations

from math import ceil, prod
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Run
from runtime_arm.registry.specs import Shape, TensorSpec

BLOCK = 16  # outputs per matrix product: its matrix has one or two dozen columns, of which an output uses two to four


class Resampled(NamedTuple):
    """How one axis is resampled.

    indices: (taps, out). weights: (taps, out) float64; None if the only tap is copied. outside: (out) bool, the outputs
    that lie outside the input and get a value of their own.
    """

    axis: int
    indices: Array
    weights: Optional[Array] = None
    outside: Optional[Array] = None

    @property
    def size(self) -> int:
        return int(self.indices.shape[1])


def nearest(axis: int, coordinates: Array, size: int) -> Resampled:
    """Copies the element at each coordinate, a whole number; beyond the ends, the first or last element."""
    return Resampled(axis, np.clip(coordinates, 0, size - 1).astype(np.intp).reshape(1, -1))


def interpolated(
    axis: int,
    coordinates: Array,
    size: int,
    kernel: Callable[[Array], Array],
    radius: float,
    exclude_outside: bool = False,
) -> Resampled:
    """Weighted sums of the elements around each coordinate: the weights are ``kernel(distance)``, scaled to sum to 1.

    The kernel is 0 from ``radius`` on. Beyond the ends the outermost elements are repeated; with ``exclude_outside``
    they are left out of the sum.
    """
    first = np.floor(coordinates - radius) + 1
    taps = first + np.arange(ceil(2 * radius)).reshape(-1, 1)
    weights = kernel(np.abs(taps - coordinates))
    if exclude_outside:
        weights = np.where((taps < 0) | (taps >= size), 0, weights)
    total = weights.sum(axis=0)
    weights = weights / np.where(total == 0, 1, total)
    return Resampled(axis, np.clip(taps, 0, size - 1).astype(np.intp), weights)


def triangle(distance: Array) -> Any:
    """The kernel of linear interpolation; radius 1."""
    return np.clip(1 - distance, 0, None)


def cubic(a: float) -> Callable[[Array], Array]:
    """The kernel of cubic convolution with slope ``a`` at 1; radius 2. Source: Keys (1981), equation 15."""

    def kernel(distance: Array) -> Any:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        return np.where(distance <= 1, near, np.where(distance < 2, far, 0))

    return kernel


def stretched(kernel: Callable[[Array], Array], factor: float) -> Callable[[Array], Array]:
    """The kernel, stretched by ``factor``."""
    return lambda distance: kernel(distance / factor)


def resample_exactly(x: Array, axes: Sequence[Resampled]) -> Array:
    """X resampled: in float64 where elements are weighted, else in X's dtype."""
    for axis, indices, weights, _ in axes:
        if weights is None:
            x = np.take(x, indices[0], axis)
            continue
        column = (-1,) + (1,) * (x.ndim - axis - 1)
        exact: Any = x.astype(np.float64)
        total: Any = 0.0
        for tap, weight in zip(indices, weights):
            total = total + np.take(exact, tap, axis) * weight.reshape(column)
        x = total
    return x


def fill_outside(y: Array, axes: Sequence[Resampled], value: float) -> None:
    """Sets the outputs that lie outside the input to ``value``."""
    for axis, _, _, outside in axes:
        if outside is not None:
            y[(slice(None),) * axis + (np.flatnonzero(outside),)] = value


def _stages(shape: Shape, axes: Sequence[Resampled]) -> List[Tuple[Resampled, Shape]]:
    """The axes in the cheapest order, each with the shape after it.

    Axes that shrink most come first; of equal ones, the last.
    """
    stages = []
    for one in sorted(axes, key=lambda one: (one.size / max(shape[one.axis], 1), -one.axis)):
        shape = (*shape[: one.axis], one.size, *shape[one.axis + 1 :])
        stages.append((one, shape))
    return stages


def resampling_scratch(x: TensorSpec, axes: Sequence[Resampled]) -> List[TensorSpec]:
    """Buffers for the results between the axes."""
    return [TensorSpec(shape, x.dtype) for _, shape in _stages(x.shape, axes)[:-1]]


def bind_resampling(x: Array, y: Array, axes: Sequence[Resampled], scratch: Sequence[Array]) -> Run:
    """A run that resamples X into Y through the buffers of ``resampling_scratch``.

    Weighted outputs are computed in blocks, so a NaN or an infinity also spoils outputs near those it belongs to.
    """
    if not axes:
        return copy_all([(y, x)])
    runs = []
    for (one, _), source, target in zip(_stages(x.shape, axes), [x, *scratch], [*scratch, y]):
        around = prod(source.shape[: one.axis]), prod(source.shape[one.axis + 1 :])
        stacks = [array.reshape(around[0], array.shape[one.axis], around[1]) for array in (source, target)]
        runs.append(_bind_gather(one, *stacks) if one.weights is None else _bind_products(one, *stacks))
    if len(runs) == 1:
        return runs[0]

    def run() -> None:
        for stage in runs:
            stage()

    return run


def _bind_gather(one: Resampled, source: Array, target: Array) -> Run:
    """Between stacks (outer, n, inner): copies if every element is repeated equally often, else gathers."""
    outer, n, inner = source.shape
    indices = one.indices[0]
    factor = one.size // max(n, 1)
    if factor and np.array_equal(indices, np.repeat(np.arange(n), factor)):
        repeated = target.reshape(outer, n, factor, inner)
        if inner > 1:
            return copy_all([(repeated, source[:, :, None])])
        return copy_all([(repeated[:, :, i], source) for i in range(factor)])
    return lambda: np.take(source, indices, axis=1, out=target, mode="clip")


def _bind_products(one: Resampled, source: Array, target: Array) -> Run:
    """Between stacks (outer, n, inner): matrix products, each with the weights of a block of outputs."""
    steps: List[Tuple[Any, Any, Array]] = []
    for start in range(0, one.size, BLOCK):
        part = slice(start, min(start + BLOCK, one.size))
        seen, matrix = _matrix(one, part, source.dtype)
        if source.shape[2] == 1:
            steps.append((source[:, seen, 0], np.ascontiguousarray(matrix.T), target[:, part, 0]))
        else:
            steps.append((matrix, source[:, seen], target[:, part]))

    def run() -> None:
        for left, right, out in steps:
            np.matmul(left, right, out=out)

    return run


def _matrix(one: Resampled, part: slice, dtype: Any) -> Tuple[slice, Array]:
    """The range of inputs that the outputs in ``part`` read, and the matrix that computes these outputs from them."""
    assert one.weights is not None
    indices, weights = one.indices[:, part], one.weights[:, part]
    first, last = int(indices.min()), int(indices.max())
    matrix = np.zeros((indices.shape[1], last + 1 - first), np.float64)
    np.add.at(matrix, (np.arange(indices.shape[1]), indices - first), weights)
    return slice(first, last + 1), matrix.astype(dtype)
