"""The order of tasks that keeps the fewest bytes alive at its worst moment.

States are sets of tasks that are done; what is live follows from the set alone. The way to "all done" whose worst state
is best is found as by Dijkstra, with the peak for a distance. Chains make few states and wide nets many: a search that
grows too large is given up, and says so. A task that raises neither the peak nor what is live is done at once, which is
never wrong: whatever is done later, less is live then.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Dict, FrozenSet, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

MOST_STATES = 3000  # that are looked at before the search is given up


class Task(NamedTuple):
    """Reads and writes blobs.

    overwrites: pairs (written, read) of equal size that may share their bytes if nobody reads the second any more.
    joint: what is read and what is written lie in the same bytes, as the parts of a whole.
    """

    reads: FrozenSet[str]
    writes: FrozenSet[str]
    overwrites: Tuple[Tuple[str, str], ...] = ()
    joint: bool = False


class _State(NamedTuple):
    done: int  # a bit a task
    number: int  # of them
    live: int  # bytes
    ready: Tuple[int, ...]
    order: Optional[Tuple[int, object]]  # the last task, and the same of the state before


class Scheduler:
    """Tasks that must keep ``before[i]``, the tasks that come before task i; blobs have ``sizes``.

    fed: blobs that are there at the start. kept: blobs that must be there at the end.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        before: Sequence[Set[int]],
        sizes: Mapping[str, int],
        fed: FrozenSet[str] = frozenset(),
        kept: FrozenSet[str] = frozenset(),
    ):
        self._tasks, self._sizes, self._kept = tasks, sizes, kept
        self._before = [_mask(places) for places in before]
        self._after: List[List[int]] = [[] for _ in tasks]
        for place, places in enumerate(before):
            for earlier in places:
                self._after[earlier].append(place)
        self._users: Dict[str, int] = {}
        self._writers: Dict[str, int] = dict.fromkeys(fed, -1)
        for place, task in enumerate(tasks):
            for name in task.reads | task.writes:
                self._users[name] = self._users.get(name, 0) | 1 << place
            for name in task.writes - fed:
                self._writers[name] = self._writers.get(name, 0) | 1 << place
        self._start = _State(
            0,
            0,
            sum(sizes.get(name, 0) for name in fed if name in kept or name in self._users),
            tuple(place for place, mask in enumerate(self._before) if not mask),
            None,
        )

    def peak(self, order: Sequence[int]) -> int:
        """Most bytes live at a time in this order."""
        state, peak = self._start, self._start.live
        for place in order:
            needed, state = self._step(state, place)
            peak = max(peak, needed)
        return peak

    def search(self, most_states: int = MOST_STATES) -> Optional[List[int]]:
        """An order of the least peak there is; None if it was not found in time."""
        heap = [(self._start.live, 0, 0, self._start)]
        seen: Set[int] = set()
        for number in range(most_states):
            if not heap:
                return None
            peak, _, _, state = heappop(heap)
            if state.done in seen:
                continue
            seen.add(state.done)
            peak, state = self._settled(peak, state)
            if not state.ready:
                return _unwound(state)
            for index, place in enumerate(state.ready):
                needed, child = self._step(state, place)
                if child.done not in seen:
                    heappush(heap, (max(peak, needed), -child.number, number * len(self._tasks) + index, child))
        return None

    def greedy(self) -> Iterator[List[int]]:
        """Orders found without looking ahead: what frees most first; one branch to its end before the next."""
        for branch_by_branch in (False, True):
            state = self._start
            while state.ready:
                grown = [(self._step(state, place), place) for place in state.ready]
                rank = [
                    (after.live > state.live, -place) if branch_by_branch else (after.live - state.live, place)
                    for (_, after), place in grown
                ]
                state = grown[rank.index(min(rank))][0][1]
            yield _unwound(state)

    def _settled(self, peak: int, state: _State) -> Tuple[int, _State]:
        """The state after all tasks that cost nothing."""
        moved = True
        while moved:
            moved = False
            for place in state.ready:
                needed, child = self._step(state, place)
                if needed <= peak and child.live <= state.live:
                    state, moved = child, True
                    break
        return peak, state

    def _step(self, state: _State, place: int) -> Tuple[int, _State]:
        """Bytes needed while the task runs, and the state behind it."""
        task, done = self._tasks[place], state.done | 1 << place
        made = [name for name in task.writes if not self._writers[name] & state.done and self._writers[name] >= 0]
        dying = {name for name in task.reads | task.writes if name not in self._kept and not self._users[name] & ~done}
        grown = state.live + sum(self._sizes.get(name, 0) for name in made)
        live = grown - sum(self._sizes.get(name, 0) for name in dying)
        shared, free = 0, dying - task.writes
        for written, read in task.overwrites:
            if written in made and read in free:
                free = free - {read}
                shared += self._sizes.get(written, 0)
        needed = max(state.live, live) if task.joint else grown - shared
        ready = [other for other in state.ready if other != place]
        ready += [other for other in self._after[place] if not self._before[other] & ~done]
        return needed, _State(done, state.number + 1, live, tuple(sorted(ready)), (place, state.order))


def _mask(places: Set[int]) -> int:
    return sum(1 << place for place in places)


def _unwound(state: _State) -> List[int]:
    order: List[int] = []
    node = state.order
    while node is not None:
        order.append(node[0])
        node = node[1]  # type: ignore[assignment]
    return order[::-1]
