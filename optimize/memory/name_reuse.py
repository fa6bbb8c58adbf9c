"""Which blobs share one buffer, and so one name, so that all buffers together are as small as possible.

A buffer is as large as the largest blob it holds; blobs with overlapping live ranges need different buffers. This is
max-colouring of an interval graph: a colour costs as much as its largest member. The problem is NP-hard, but nets need
few buffers at a time. If k blobs of at least s bytes are live at the same time, the k-th largest buffer must have at
least s bytes. These sizes are a lower bound, and most nets reach it: a beam search over partial assignments, in the
order of time, starts from them and grows or adds buffers only where it must.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

BEAM_WIDTH = 64


class Range(NamedTuple):
    """The first and the last operator, both included, during which a blob must keep its content."""

    first: int
    last: int


class _Buffer(NamedTuple):
    nbytes: int
    free_from: int  # the first operator that may write into it again
    number: int


class _Partial(NamedTuple):
    """An assignment of the first blobs. ``choice`` is the buffer of the last of them, ``before`` assigns the others."""

    buffers: Tuple[_Buffer, ...]
    nbytes: int
    choice: int
    before: Optional[_Partial]


def reuse_buffers(ranges: Mapping[str, Range], sizes: Mapping[str, int], width: int = BEAM_WIDTH) -> List[List[str]]:
    """The blobs of each buffer, in the order of time. Sizes are bytes or any other additive cost."""
    names = sorted(ranges, key=lambda name: (ranges[name].first, -sizes[name], name))
    start = tuple(_Buffer(nbytes, 0, number) for number, nbytes in enumerate(least_sizes(ranges, sizes)))
    beam = [_Partial(start, sum(buffer.nbytes for buffer in start), -1, None)]
    for name in names:
        beam = _pruned([after for partial in beam for after in _placements(partial, ranges[name], sizes[name])], width)
    chains: Dict[int, List[str]] = {}
    node: Optional[_Partial] = beam[0]
    for name in reversed(names):
        assert node is not None
        chains.setdefault(node.choice, []).append(name)
        node = node.before
    return sorted((chain[::-1] for chain in chains.values()), key=lambda chain: ranges[chain[0]])


def least_sizes(ranges: Mapping[str, Range], sizes: Mapping[str, int]) -> List[int]:
    """The least sizes of buffers that any assignment needs, largest first; their sum is a lower bound."""
    least: List[int] = []
    for size in sorted({sizes[name] for name in ranges}, reverse=True):
        together = _most_at_once([ranges[name] for name in ranges if sizes[name] >= size])
        least += [size] * (together - len(least))
    return least


def _most_at_once(ranges: Sequence[Range]) -> int:
    changes: Dict[int, int] = {}
    for first, last in ranges:
        changes[first] = changes.get(first, 0) + 1
        changes[last + 1] = changes.get(last + 1, 0) - 1
    now = most = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def _placements(partial: _Partial, live: Range, nbytes: int) -> List[_Partial]:
    """Every way to place one more blob: in a free buffer (one of each size is tried) or in a new one."""
    tried = set()
    results = []
    for index, buffer in enumerate(partial.buffers):
        if buffer.free_from <= live.first and buffer.nbytes not in tried:
            tried.add(buffer.nbytes)
            results.append(_with(partial, index, _Buffer(max(buffer.nbytes, nbytes), live.last + 1, buffer.number)))
    new = _Buffer(nbytes, live.last + 1, len(partial.buffers))
    return [*results, _Partial((*partial.buffers, new), partial.nbytes + nbytes, new.number, partial)]


def _with(partial: _Partial, index: int, buffer: _Buffer) -> _Partial:
    buffers = (*partial.buffers[:index], buffer, *partial.buffers[index + 1 :])
    return _Partial(buffers, partial.nbytes + buffer.nbytes - partial.buffers[index].nbytes, buffer.number, partial)


def _pruned(partials: Sequence[_Partial], width: int) -> List[_Partial]:
    """The ``width`` cheapest assignments; of those whose buffers are alike in size and time, only the cheapest."""
    different: Dict[Tuple[Tuple[int, int], ...], _Partial] = {}
    for partial in partials:
        state = tuple(sorted((buffer.nbytes, buffer.free_from) for buffer in partial.buffers))
        if state not in different or different[state].nbytes > partial.nbytes:
            different[state] = partial
    ranked = sorted(different.items(), key=lambda item: (item[1].nbytes, len(item[0]), item[0]))
    return [partial for _, partial in ranked[:width]]
