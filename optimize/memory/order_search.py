"""The order of tasks that keeps the fewest bytes alive at its worst moment.

A state is the set of tasks that are done; which blobs are live follows from that set alone. The way to "all done" whose
worst state is best is found as by Dijkstra, with the peak in place of the distance. Chains have few states and wide
nets many: a search that takes too long is given up. A task that raises neither the peak nor the bytes that are live is
done at once. This is never wrong: fewer bytes are live for whatever follows.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Dict, FrozenSet, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

MOST_STEPS = 60_000  # that are weighed before the search is given up; about half a second


class Task(NamedTuple):
    """Reads and writes blobs.

    overwrites: pairs (written, read) of equal size that may lie in the same bytes if no other task needs the second any
    more. joint: what is read and what is written lie in the same bytes, as the parts of a whole.
    """

    reads: FrozenSet[str]
    writes: FrozenSet[str]
    overwrites: Tuple[Tuple[str, str], ...] = ()
    joint: bool = False


class _State(NamedTuple):
    done: int  # a bit a task
    number: int  # of tasks that are done
    live: int  # bytes
    ready: Tuple[int, ...]  # in ascending order
    order: Optional[Tuple[int, object]]  # the last task, and the same of the state before


class _Blob(NamedTuple):
    name: str
    nbytes: int
    users: int  # a bit a task that reads or writes it
    writers: int  # a bit a task; all of them if it is there at the start


class _Facts(NamedTuple):
    """The facts about a task."""

    writes: Tuple[_Blob, ...]
    mortal: Tuple[_Blob, ...]  # what it reads or writes and what need not be there at the end


class Scheduler:
    """Tasks that must keep ``before[i]``, the tasks that come before task i; blobs have ``sizes``.

    fed: blobs that exist at the start. kept: blobs that must exist at the end.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        before: Sequence[Set[int]],
        sizes: Mapping[str, int],
        fed: FrozenSet[str] = frozenset(),
        kept: FrozenSet[str] = frozenset(),
    ):
        self._tasks = tasks
        self._before = [_mask(places) for places in before]
        self._after: List[List[int]] = [[] for _ in tasks]
        for place, places in enumerate(before):
            for earlier in places:
                self._after[earlier].append(place)
        users: Dict[str, int] = {}
        writers: Dict[str, int] = dict.fromkeys(fed, -1)
        for place, task in enumerate(tasks):
            for name in task.reads | task.writes:
                users[name] = users.get(name, 0) | 1 << place
            for name in task.writes - fed:
                writers[name] = writers.get(name, 0) | 1 << place
        blobs = {name: _Blob(name, sizes.get(name, 0), users[name], writers.get(name, 0)) for name in users}
        self._facts = [
            _Facts(
                tuple(blobs[name] for name in sorted(task.writes)),
                tuple(blobs[name] for name in sorted((task.reads | task.writes) - kept)),
            )
            for task in tasks
        ]
        self._start = _State(
            0,
            0,
            sum(sizes.get(name, 0) for name in fed if name in kept or name in users),
            tuple(place for place, mask in enumerate(self._before) if not mask),
            None,
        )

    def peak(self, order: Sequence[int]) -> int:
        """Most bytes live at a time in this order."""
        done, live = 0, self._start.live
        peak = live
        for place in order:
            needed, live = self._weighed(done, live, place)
            done |= 1 << place
            peak = max(peak, needed)
        return peak

    def search(self, most_steps: int = MOST_STEPS) -> Optional[List[int]]:
        """An order with the smallest peak; None if it was not found in this number of steps."""
        heap = [(self._start.live, 0, 0, self._start.live, self._start, -1)]
        seen: Set[int] = set()
        steps = 0
        while heap and steps < most_steps:
            peak, _, _, live, state, place = heappop(heap)
            if place >= 0:
                state = self._after_task(state, place, live)
            if state.done in seen:
                continue
            seen.add(state.done)
            weighed, state = self._settled(peak, state)
            if not state.ready:
                return _unwound(state)
            for place in state.ready:
                needed, live = self._weighed(state.done, state.live, place)
                if state.done | 1 << place not in seen:
                    heappush(heap, (max(peak, needed), -state.number - 1, steps, live, state, place))
                steps += 1
            steps += weighed
        return None

    def greedy(self) -> Iterator[List[int]]:
        """Orders found without looking ahead: what frees most first; one branch to its end before the next."""
        for branch_by_branch in (False, True):
            state = self._start
            live: Dict[int, int] = {}  # after each ready task, less what is live before it
            while state.ready:
                for place in state.ready:
                    if place not in live:
                        live[place] = self._weighed(state.done, 0, place)[1]
                if branch_by_branch:
                    best = min(state.ready, key=lambda place: (live[place] > 0, -place))
                else:
                    best = min(state.ready, key=lambda place: (live[place], place))
                state = self._after_task(state, best, state.live + live[best])
                for place in self._touched_by(best, state.done):
                    live.pop(place, None)
            yield _unwound(state)

    def _touched_by(self, place: int, done: int) -> Iterable[int]:
        """The tasks whose cost may have changed now that this task, the last one, is done."""
        for blob in {*self._facts[place].writes, *self._facts[place].mortal}:
            left = blob.users & ~done
            if left & (left - 1) == 0 or blob.writers & (blob.writers - 1):  # one user is left, or several write it
                yield from _places(left)

    def _settled(self, peak: int, state: _State) -> Tuple[int, _State]:
        """How many steps were weighed, and the state after all tasks that cost nothing."""
        weighed, at = 0, 0
        while at < len(state.ready):
            place = state.ready[at]
            needed, live = self._weighed(state.done, state.live, place)
            at, weighed = at + 1, weighed + 1
            if needed <= peak and live <= state.live:
                state, at = self._after_task(state, place, live), 0
        return weighed, state

    def _weighed(self, done: int, live: int, place: int) -> Tuple[int, int]:
        """Bytes needed while the task runs, and bytes live after it."""
        task, facts = self._tasks[place], self._facts[place]
        after = done | 1 << place
        grown = live
        for blob in facts.writes:
            if not blob.writers & done and blob.writers >= 0:
                grown += blob.nbytes
        behind = grown
        for blob in facts.mortal:
            if blob.users & after == blob.users:
                behind -= blob.nbytes
        if task.joint:
            return max(live, behind), behind
        if task.overwrites:
            return grown - self._overwritten(done, place), behind
        return grown, behind

    def _overwritten(self, done: int, place: int) -> int:
        """Bytes that the task writes over blobs that no other task needs."""
        task, facts = self._tasks[place], self._facts[place]
        after, nbytes = done | 1 << place, 0
        made = {blob.name: blob.nbytes for blob in facts.writes if not blob.writers & done and blob.writers >= 0}
        free = {blob.name for blob in facts.mortal if blob.users & after == blob.users} - task.writes
        for written, read in task.overwrites:
            if written in made and read in free:
                free.remove(read)
                nbytes += made[written]
        return nbytes

    def _after_task(self, state: _State, place: int, live: int) -> _State:
        done = state.done | 1 << place
        ready = [other for other in state.ready if other != place]
        new = [other for other in self._after[place] if not self._before[other] & ~done]
        return _State(done, state.number + 1, live, tuple(sorted(ready + new) if new else ready), (place, state.order))


def _mask(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)


def _places(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _unwound(state: _State) -> List[int]:
    order: List[int] = []
    node = state.order
    while node is not None:
        order.append(node[0])
        node = node[1]  # type: ignore[assignment]
    return order[::-1]
