"""Which blobs of the forward pass to compute again, so that the backward pass needs less memory, in little more time.

The forward pass is cut where few blobs pass. For each segment between two cuts there are three choices: keep
everything, make again what is cheap (all but convolutions and products of matrices), or make everything again. With the
last choice only blobs that pass the segment's end are kept, and the blobs inside exist only while the backward pass
runs through the segment. A dynamic program over the cuts finds, for each memory limit, the segments that take the least
time: of two ways to reach a cut, one that keeps more and takes longer is dropped. Source: Chen et al., Training Deep
Nets with Sublinear Memory Cost (2016); Beaumont et al., Optimal Checkpointing for Heterogeneous Chains (2019).
"""

from __future__ import annotations

from itertools import accumulate
from typing import Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from optimize.training.recompute import Forward
from runtime_arm.registry.schema import find

MOST_CUTS = 40
MOST_WAYS = 12  # that are kept at each cut
BOUNDS = 24  # of memory that are tried
FEWEST_CUTS = 4
KEPT, CHEAP, ALL = range(3)  # what becomes of a segment


def choices(forward: Forward, sizes: Mapping[str, int], seconds: Sequence[float], is_cheap: Sequence[bool]) -> Choices:
    """Sets of blobs to drop, from none to those that keep least. sizes: bytes of blobs; seconds: of each operator."""
    chain = _Chain(forward, sizes, seconds, is_cheap)
    found: Dict[FrozenSet[str], None] = {frozenset(): None}
    for bound in chain.bounds():
        way = chain.best(bound)
        if way is not None:
            found[chain.dropped(way)] = None
    return list(found)


Choices = List[FrozenSet[str]]


class _Way(NamedTuple):
    """A way to a cut: bytes that are kept up to there, seconds for repeated operators, and the choice for the last
    segment.
    """

    nbytes: int
    seconds: float
    start: int
    kind: int
    before: Optional[_Way]


class _Segment(NamedTuple):
    """Between two cuts. inside: bytes that the backward pass needs at a time. kept, seconds: for each choice."""

    inside: int
    kept: Tuple[int, int, int]
    seconds: Tuple[float, float, float]


class _Chain:
    def __init__(self, forward: Forward, sizes: Mapping[str, int], seconds: Sequence[float], is_cheap: Sequence[bool]):
        self._forward, self._sizes, self._is_cheap = forward, sizes, is_cheap
        self._passing = _passing(forward)
        self._made = {name for op in forward.rest for name in op.output}
        self._all = self._sums(forward.kept)
        self._fixed = self._sums({name for name in forward.kept if name not in forward.repeats})
        self._cheap = self._sums(self._dropped(range(len(forward.ops)), CHEAP))
        again = {forward.writers[name] for name in forward.repeats}
        self._seconds = [0.0, *accumulate(s if at in again else 0.0 for at, s in enumerate(seconds))]
        light = [s if at in again and is_cheap[at] else 0.0 for at, s in enumerate(seconds)]
        self._cheap_seconds = [0.0, *accumulate(light)]
        self._passed = self._gradients()
        self._cuts = self._chosen_cuts()
        self._segments: Dict[Tuple[int, int], _Segment] = {}

    def _sums(self, names: Set[str]) -> List[int]:
        """The bytes of those blobs that the operators before each place write."""
        each = (sum(self._sizes.get(n, 0) for n in op.output if n in names) for op in self._forward.ops)
        return [0, *accumulate(each)]

    def _dropped(self, places: Sequence[int], kind: int) -> Set[str]:
        written = ((at, name) for at in places for name in self._forward.ops[at].output)
        wanted = {name for at, name in written if kind == ALL or (kind == CHEAP and self._is_cheap[at])}
        return {name for name in wanted if name in self._forward.kept and name in self._forward.repeats}

    def _gradients(self) -> List[int]:
        """The most bytes of gradients that exist at a time in the backward pass of each operator."""
        most, at = [0] * len(self._forward.ops), len(self._forward.ops) - 1
        for op in self._forward.rest:
            if not op.is_gradient_op:
                continue
            at = max((self._forward.writers[name] for name in op.input if name in self._forward.writers), default=at)
            made = [self._sizes.get(name, 0) for name in op.output]
            read = [self._sizes.get(name, 0) for name in op.input if name in self._made]
            schema = find(op)
            overwritten = made[0] if schema is not None and 0 in schema.inplace else 0
            most[at] = max(most[at], sum(made) + sum(read) - overwritten)
        return most

    def _chosen_cuts(self) -> List[int]:
        """Places where one blob passes; all places if there are hardly any. Of too many some are chosen, evenly by
        bytes.
        """
        count = len(self._forward.ops)
        narrow = [at for at in range(1, count) if len(self._passing[at]) == 1]
        inner = narrow if len(narrow) >= FEWEST_CUTS else list(range(1, count))
        least, chosen = self._all[-1] // MOST_CUTS, [0]
        for at in inner:
            if self._all[at] - self._all[chosen[-1]] > least:
                chosen.append(at)
        return [*chosen, count]

    def _segment(self, start: int, end: int) -> _Segment:
        inside = self._all[end] - self._all[start]
        passing = [name for name in self._passing[end] if self._forward.writers.get(name, -1) >= start]
        outside = sum(self._sizes.get(name, 0) for name in passing)
        fixed = self._fixed[end] - self._fixed[start]
        cheap = self._cheap[end] - self._cheap[start]
        again = sum(self._sizes.get(n, 0) for n in passing if self._is_cheap[self._forward.writers[n]])
        return _Segment(
            inside + max(self._passed[start:end]),
            (inside, inside - cheap + again, fixed + outside),
            (
                0.0,
                self._cheap_seconds[end] - self._cheap_seconds[start],
                self._seconds[end] - self._seconds[start],
            ),
        )

    def bounds(self) -> Iterator[int]:
        """Memory limits, from everything kept down to the smallest segment."""
        most = self._all[-1] + max(self._passed, default=0)
        for number in range(BOUNDS):
            yield most - most * number // BOUNDS

    def best(self, bound: int) -> Optional[_Way]:
        """The way that takes the least time among those that need no more than these bytes; None if there is none."""
        ways: List[List[_Way]] = [[_Way(0, 0.0, 0, KEPT, None)]]
        for last, end in enumerate(self._cuts[1:], 1):
            found: List[_Way] = []
            for first, start in enumerate(self._cuts[:last]):
                segment = self._known(start, end)
                kinds = (KEPT, CHEAP, ALL) if first == last - 1 else (CHEAP, ALL)
                for way in ways[first]:
                    if way.nbytes + segment.inside <= bound:
                        found += [
                            _Way(way.nbytes + segment.kept[k], way.seconds + segment.seconds[k], start, k, way)
                            for k in kinds
                        ]
            ways.append(_best(found))
        return min(ways[-1], key=lambda way: way.seconds, default=None)

    def _known(self, start: int, end: int) -> _Segment:
        if (start, end) not in self._segments:
            self._segments[start, end] = self._segment(start, end)
        return self._segments[start, end]

    def dropped(self, way: _Way) -> FrozenSet[str]:
        """The blobs that this way does not keep."""
        names: Set[str] = set()
        end = len(self._forward.ops)
        node: Optional[_Way] = way
        while node is not None and node.before is not None:
            own = self._dropped(range(node.start, end), node.kind)
            names |= own - set(self._passing[end])
            end, node = node.start, node.before
        return frozenset(names)


def _passing(forward: Forward) -> List[List[str]]:
    """For each place, the blobs that operators before it write and operators from there on read."""
    last: Dict[str, int] = {}
    for at, op in enumerate(forward.ops):
        last.update((name, at) for name in op.reads() if name in forward.writers)
    count = len(forward.ops)
    passing: List[List[str]] = [[] for _ in range(count + 1)]
    for name, end in last.items():
        for at in range(forward.writers[name] + 1, end + 1):
            passing[at].append(name)
    return passing


def _best(ways: List[_Way]) -> List[_Way]:
    """The ways for which no other keeps less and takes less time; of too many, some are chosen evenly."""
    chosen: List[_Way] = []
    for way in sorted(ways, key=lambda way: (way.nbytes, way.seconds)):
        if not chosen or way.seconds < chosen[-1].seconds:
            chosen.append(way)
    if len(chosen) <= MOST_WAYS:
        return chosen
    return [chosen[at * (len(chosen) - 1) // (MOST_WAYS - 1)] for at in range(MOST_WAYS)]
