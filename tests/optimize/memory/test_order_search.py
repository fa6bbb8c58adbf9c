"""Orders of tasks: the search finds the best order, or says that it gave up."""

from __future__ import annotations

from itertools import permutations
from typing import Dict, List, Sequence, Set, Tuple

from hypothesis import given, settings
from hypothesis import strategies as st

from optimize.memory.order_search import Scheduler, Task

Graph = Tuple[List[Task], List[Set[int]], Dict[str, int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to seven tasks; task i writes blob i, reads blobs of earlier tasks, and may overwrite what it reads."""
    tasks: List[Task] = []
    before: List[Set[int]] = []
    for place in range(draw(st.integers(1, 7))):
        sources = draw(st.sets(st.integers(0, place - 1), max_size=3)) if place else set()
        overwrites = tuple((str(place), str(source)) for source in sources) if draw(st.booleans()) else ()
        tasks.append(Task(frozenset(map(str, sources)), frozenset([str(place)]), overwrites, draw(st.booleans())))
        before.append(set(sources))
    return tasks, before, {str(i): draw(st.integers(0, 9)) for i in range(len(tasks))}


def allowed(order: Sequence[int], before: Sequence[Set[int]]) -> bool:
    return all(before[place] <= set(order[:at]) for at, place in enumerate(order))


@settings(max_examples=150)
@given(graphs())
def test_no_order_needs_less_memory_than_the_one_found(graph: Graph) -> None:
    tasks, before, sizes = graph
    scheduler = Scheduler(tasks, before, sizes, kept=frozenset([str(len(tasks) - 1)]))
    found = scheduler.search()
    assert found is not None
    assert allowed(found, before)
    orders = [order for order in permutations(range(len(tasks))) if allowed(order, before)]
    assert scheduler.peak(found) == min(map(scheduler.peak, orders))
    for order in scheduler.greedy():
        assert sorted(order) == sorted(found)
        assert allowed(order, before)


def test_a_result_may_overwrite_a_blob_after_its_last_use() -> None:
    read, written = frozenset("x"), frozenset("y")
    for task, peak in ((Task(read, written), 8), (Task(read, written, (("y", "x"),)), 4)):
        assert Scheduler([task], [set()], {"x": 4, "y": 4}, fed=read, kept=written).peak([0]) == peak


def test_parts_and_their_whole_are_counted_once() -> None:
    task = Task(frozenset("ab"), frozenset("c"), joint=True)
    assert Scheduler([task], [set()], {"a": 2, "b": 3, "c": 5}, fed=frozenset("ab"), kept=frozenset("c")).peak([0]) == 5


def test_the_search_gives_up_after_too_many_steps() -> None:
    tasks = [Task(frozenset(), frozenset([str(i)])) for i in range(12)]
    scheduler = Scheduler(tasks, [set() for _ in tasks], {str(i): i for i in range(12)})
    assert scheduler.search(most_steps=0) is None
