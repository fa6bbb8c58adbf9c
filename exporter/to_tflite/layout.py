"""The order in which a tensor holds a blob's dimensions.

TFLite's pictures have their channels last, a pair's mostly have them first. A blob (N, C, H, W) that a tensor holds as
(N, H, W, C) has the order (0, 2, 3, 1): dimension k of the tensor is dimension order[k] of the blob. A Transpose in the
net only changes the order that is noted here; a TRANSPOSE is added where an operator needs another order than the
tensor has.
"""

from __future__ import annotations

from math import prod
from typing import List, Optional, Sequence, Tuple

Order = Tuple[int, ...]


def plain(rank: int) -> Order:
    """The blob's own order."""
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """(N, C, image) held as (N, image, C)."""
    return (0, *range(2, rank), 1) if rank > 2 else plain(rank)


def held(values: Sequence[int], order: Order) -> Tuple[int, ...]:
    """One item for each of the blob's dimensions, such as its shape, in the order of the tensor."""
    return tuple(values[axis] for axis in order)


def reshaped(order: Order, old: Sequence[int], new: Sequence[int]) -> Optional[Order]:
    """The order in which a tensor has the dimensions of a reshaped blob if the tensor is reshaped in the order it has.

    None if that is impossible. Dimensions of the old shape that become dimensions of the new one must lie beside each
    other in the tensor: of (N, C, H, W) held as (N, H, W, C), C can be split, H and W can be merged, but not C and H.
    """
    groups = _groups(old, new)
    if groups is None:
        return None
    wide = [axis for axis in order if old[axis] != 1]
    found: List[int] = [axis for olds, news in groups if all(old[one] == 1 for one in olds) for axis in news]
    while wide:
        olds, news = next(one for one in groups if wide[0] in one[0])
        part = [axis for axis in olds if old[axis] != 1]
        if wide[: len(part)] != part:
            return None
        del wide[: len(part)]
        found += news
    return tuple(found)


def before_reshape(want: Order, old: Sequence[int], new: Sequence[int]) -> Optional[Order]:
    """The order of the old dimensions in which a reshaped tensor has the new ones in the order ``want``.

    None if a run of old dimensions becomes several new ones that ``want`` parts.
    """
    found: List[int] = []
    left = list(want)
    for olds, news in sorted(_groups(old, new) or (), key=lambda group: min(map(want.index, group[1]), default=-1)):
        if left[: len(news)] != news:
            return None
        del left[: len(news)]
        found += olds
    return tuple(found) if len(found) == len(old) else None


def _groups(old: Sequence[int], new: Sequence[int]) -> Optional[List[Tuple[List[int], List[int]]]]:
    """The smallest runs of dimensions of both shapes that hold equally many elements; None for empty blobs."""
    if 0 in old or 0 in new:
        return None
    groups: List[Tuple[List[int], List[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        olds, news = ([i] if i < len(old) else []), ([j] if j < len(new) else [])
        i, j = i + len(olds), j + len(news)
        while (a := prod(old[one] for one in olds)) != (b := prod(new[one] for one in news)):
            if a < b:
                olds.append(i)
                i += 1
            else:
                news.append(j)
                j += 1
        groups.append((olds, news))
    return groups


def turns(have: Order, want: Order) -> List[int]:
    """The permutation that a TRANSPOSE needs to make one order of another."""
    return [have.index(axis) for axis in want]


def moves_nothing(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    """Whether transposing a tensor of this shape leaves its elements where they are: only sizes of 1 change places."""
    kept = [axis for axis in permutation if shape[axis] != 1]
    return kept == sorted(kept)
