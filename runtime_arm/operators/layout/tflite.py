"""TensorFlow Lite's exchange of space with the batch, in blocks, for sizes that are known only when the net runs."""

from __future__ import annotations

from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.copying import copy_all
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import integers_of, operator, require, value_of
from runtime_arm.registry.specs import Shape, TensorSpec


class _Blocks(NamedTuple):
    """Blocks of a padded picture. sizes: of the picture, without padding. head, tail: the padding before and after."""

    block: Tuple[int, ...]
    sizes: Tuple[int, ...]
    head: Tuple[int, ...]
    tail: Tuple[int, ...]

    @property
    def deep(self) -> Tuple[int, ...]:
        """The sizes of the pictures that hold one position of each block."""
        whole = zip(self.sizes, self.head, self.tail)
        return tuple((n + head + tail) // b for b, (n, head, tail) in zip(self.block, whole))

    def taps(self) -> Iterator[Tuple[int, Tuple[slice, ...], Tuple[slice, ...]]]:
        """For each position in a block its number, where its pixels lie in the deep pictures, and where in the wide."""
        for number, offset in enumerate(np.ndindex(*self.block)):
            deep, wide = [], []
            for b, n, head, place, count in zip(self.block, self.sizes, self.head, offset, self.deep):
                first = max(-((place - head) // b), 0)  # rounded up
                last = min((n - 1 + head - place) // b + 1, count)
                start = first * b + place - head
                deep.append(slice(first, max(last, first)))
                wide.append(slice(start, max(start, min(n, (last - 1) * b + place - head + 1)), b))
            yield number, tuple(deep), tuple(wide)


def _arguments(
    op: OperatorDef, x: TensorSpec, block: TensorSpec, pairs: TensorSpec, what: str
) -> Tuple[List[int], Array]:
    """The block and the padding or crops, checked."""
    sizes, pads = integers_of(op, block, "block"), value_of(op, pairs, what)
    require(op, 0 < len(sizes) < x.ndim and min(sizes) > 0, f"the block must be positive, got {sizes}", x)
    fits = pads.shape == (len(sizes), 2) and pads.dtype.kind == "i" and int(pads.min()) >= 0
    require(op, fits, f"{what} must hold a pair of sizes for each of {len(sizes)} dimensions", pairs)
    return sizes, pads


def _to_batch(op: OperatorDef, x: TensorSpec, block: TensorSpec, pads: TensorSpec) -> _Blocks:
    sizes, pairs = _arguments(op, x, block, pads, "pads")
    spatial = x.shape[1 : 1 + len(sizes)]
    whole = [n + int(pair.sum()) for n, pair in zip(spatial, pairs)]
    require(op, not any(n % b for n, b in zip(whole, sizes)), f"blocks of {sizes} do not divide pictures of {whole}", x)
    head, tail = ([int(n) for n in column] for column in pairs.T)
    return _Blocks(tuple(sizes), spatial, tuple(head), tuple(tail))


def _to_space(op: OperatorDef, x: TensorSpec, block: TensorSpec, crops: TensorSpec) -> _Blocks:
    sizes, pairs = _arguments(op, x, block, crops, "crops")
    require(op, x.shape[0] % int(np.prod(sizes)) == 0, f"the batch is not made of blocks of {sizes}", x)
    left = [n * b - int(pair.sum()) for n, b, pair in zip(x.shape[1:], sizes, pairs)]
    require(op, min(left) >= 0, "the crops are larger than the pictures", x, crops)
    head, tail = ([int(n) for n in column] for column in pairs.T)
    return _Blocks(tuple(sizes), tuple(left), tuple(head), tuple(tail))


@operator("SpaceToBatchND", domain="tflite", inputs=3)
def space_to_batch(op: OperatorDef, x: TensorSpec, block: TensorSpec, pads: TensorSpec) -> List[TensorSpec]:
    """Pictures (N, *sizes, *rest), padded, as (product(block) * N, *padded sizes / block, *rest).

    block: one number for each of the sizes. pads (len(block), 2): pixels of ``value`` (0) before and after. Source:
    LiteRT, reference/space_to_batch_nd.h.
    """
    blocks = _to_batch(op, x, block, pads)
    rest = x.shape[1 + len(blocks.block) :]
    return [x.with_shape((x.shape[0] * int(np.prod(blocks.block)), *blocks.deep, *rest))]


def _inside(pictures: Array, place: Tuple[slice, ...]) -> Array:
    """The part of every picture at this place."""
    index = (slice(None), *place)
    return pictures[index]


def _fill(op: OperatorDef, dtype: Any) -> Any:
    return np.asarray(op.get_float("value", 0.0)).astype(dtype)


def _regrouped(x: Array, shape: Sequence[int], order: Sequence[int], result: Shape) -> Array:
    return np.ascontiguousarray(x.reshape(shape).transpose(order)).reshape(result)


@space_to_batch.reference
def space_to_batch_reference(op: OperatorDef, x: Array, block: Array, pads: Array) -> List[Any]:
    specs = [TensorSpec.known(array) for array in (x, block, pads)]
    blocks, count = _to_batch(op, *specs), block.size
    edges = [(0, 0), *zip(blocks.head, blocks.tail), *[(0, 0)] * (x.ndim - 1 - count)]
    padded = np.pad(x, edges, mode="constant", constant_values=_fill(op, x.dtype))
    parts = [k for n, b in zip(blocks.deep, blocks.block) for k in (n, b)]
    split = [x.shape[0], *parts, *x.shape[1 + count :]]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(split))]
    return [_regrouped(padded, split, order, space_to_batch.shape(op, *specs)[0].shape)]


def _by_position(deep: Array, block: Tuple[int, ...]) -> Array:
    """The batch as (position in the block, N, ...)."""
    count = int(np.prod(block))
    return deep.reshape((count, deep.shape[0] // count, *deep.shape[1:]))


@space_to_batch.kernel("NUMPY")
def space_to_batch_numpy(call: Call) -> Run:
    (x, *_), (y,) = call.inputs, call.outputs
    blocks = _to_batch(call.op, *(spec for spec in call.in_specs if spec is not None))
    parts = _by_position(y, blocks.block)
    copies: List[Tuple[Array, Any]] = [(y, _fill(call.op, x.dtype))] if any(blocks.head + blocks.tail) else []
    copies += [(_inside(parts[number], deep), _inside(x, wide)) for number, deep, wide in blocks.taps()]
    return copy_all(copies)


@operator("BatchToSpaceND", domain="tflite", inputs=3)
def batch_to_space(op: OperatorDef, x: TensorSpec, block: TensorSpec, crops: TensorSpec) -> List[TensorSpec]:
    """The inverse of SpaceToBatchND: (product(block) * N, *sizes, *rest) as (N, *sizes * block - crops, *rest).

    crops (len(block), 2): pixels that are left out before and after. Source: LiteRT, reference/batch_to_space_nd.h.
    """
    blocks = _to_space(op, x, block, crops)
    rest = x.shape[1 + len(blocks.block) :]
    return [x.with_shape((x.shape[0] // int(np.prod(blocks.block)), *blocks.sizes, *rest))]


@batch_to_space.reference
def batch_to_space_reference(op: OperatorDef, x: Array, block: Array, crops: Array) -> List[Any]:
    blocks, count = _to_space(op, *[TensorSpec.known(array) for array in (x, block, crops)]), block.size
    batch = x.shape[0] // int(np.prod(blocks.block))
    split = [*blocks.block, batch, *x.shape[1:]]
    order = [count, *(axis for i in range(count) for axis in (count + 1 + i, i)), *range(2 * count + 1, len(split))]
    wide = [n * b for n, b in zip(x.shape[1:], blocks.block)]
    whole = _regrouped(x, split, order, (batch, *wide, *x.shape[1 + count :]))
    kept = tuple(slice(head, head + n) for head, n in zip(blocks.head, blocks.sizes))
    return [_inside(whole, kept).copy()]


@batch_to_space.kernel("NUMPY")
def batch_to_space_numpy(call: Call) -> Run:
    (x, *_), (y,) = call.inputs, call.outputs
    blocks = _to_space(call.op, *(spec for spec in call.in_specs if spec is not None))
    parts = _by_position(x, blocks.block)
    taps = blocks.taps()
    return copy_all([(_inside(y, wide), _inside(parts[number], deep)) for number, deep, wide in taps])
