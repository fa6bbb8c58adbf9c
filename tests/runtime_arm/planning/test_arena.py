from __future__ import annotations

import random
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.errors import ResourceError
from runtime_arm.planning import arena
from runtime_arm.planning.arena import ALIGNMENT, Lifetime, aligned, allocate, group, liveness_peak, place
from runtime_arm.planning.arena_search import search

lifetime = st.tuples(st.integers(0, 20), st.integers(0, 10), st.integers(0, 1000)).map(
    lambda t: Lifetime(t[0], t[0] + t[1], t[2])
)

groups = st.lists(
    st.lists(st.builds(lambda one, offset: one._replace(offset=offset), lifetime, st.integers(0, 2000)), max_size=4),
    max_size=12,
)


def alone(blobs):
    return [group([blob]) for blob in blobs]


@given(groups)
def test_blobs_that_live_at_the_same_time_overlap_only_within_a_group(drawn):
    offsets, total, _ = place([group(one) for one in drawn])
    assert all(at % ALIGNMENT == 0 for at in offsets)
    spans = [(number, one, at + one.offset) for number, (blobs, at) in enumerate(zip(drawn, offsets)) for one in blobs]
    for (owner, a, at), (other, b, bt) in combinations(spans, 2):
        if owner != other and a.first <= b.last and b.first <= a.last and a.nbytes and b.nbytes:
            assert at + a.nbytes <= bt or bt + b.nbytes <= at
    assert all(at + one.nbytes <= total for _, one, at in spans if one.nbytes)


@given(groups)
def test_the_arena_holds_all_live_blobs_and_is_never_larger_than_all_blobs(drawn):
    placed = [group(one) for one in drawn]
    _, total, least = place(placed)
    everything = sum(max((aligned(one.end) for one in blobs if one.nbytes), default=0) for blobs in drawn)
    assert liveness_peak(placed) <= least <= total <= everything


@given(groups)
def test_bytes_shared_within_a_group_count_once(drawn):
    for blobs in drawn:

        def lines(ones):
            return {
                (step, line)
                for one in ones
                if one.nbytes
                for step in range(one.first, one.last + 1)
                for line in range(one.offset // ALIGNMENT, aligned(one.end) // ALIGNMENT)
            }

        boxes = group(blobs)
        assert lines(boxes) == lines(blobs)
        assert len(lines(boxes)) == sum((box.last - box.first + 1) * (box.nbytes // ALIGNMENT) for box in boxes)


def test_bytes_that_a_group_does_not_need_yet_are_free_for_others():
    """The first part of the whole is written at step 0, the other at step 4; a blob that lives between lies there."""
    whole = group([Lifetime(0, 4, 640), Lifetime(4, 4, 640, 640), Lifetime(5, 5, 1280)])
    between = group([Lifetime(1, 3, 640)])
    assert whole == [Lifetime(0, 5, 640), Lifetime(4, 5, 640, 640)]
    assert place([whole, between]) == ([0, 640], 1280, 1280)


def test_a_chain_of_equal_blobs_needs_memory_for_two():
    chain = alone(Lifetime(i, i + 1, 4096) for i in range(10))
    assert place(chain).nbytes == liveness_peak(chain) == 2 * 4096


def test_memory_is_aligned():
    assert allocate(100, "a test").ctypes.data % ALIGNMENT == 0
    assert allocate(0, "a test").size == 0


def test_more_memory_than_the_machine_has_is_refused():
    with pytest.raises(ResourceError, match="a test needs"):
        allocate(1 << 60, "a test")


def test_the_peak_is_reached_where_placing_the_largest_first_fails():
    blobs = alone([Lifetime(0, 3, 64 * 3), Lifetime(3, 6, 64), Lifetime(1, 2, 64 * 4), Lifetime(5, 7, 64 * 4)])
    assert place(blobs).nbytes == liveness_peak(blobs) == 64 * 7


def test_random_blobs_mostly_reach_the_peak():
    rng = random.Random(0)
    excesses = []
    for _ in range(100):
        starts = [rng.randint(0, 30) for _ in range(rng.randint(5, 40))]
        blobs = alone(Lifetime(start, start + rng.randint(0, 10), 64 * rng.randint(1, 20)) for start in starts)
        excesses.append(place(blobs).nbytes / liveness_peak(blobs) - 1)
    assert sum(excess == 0 for excess in excesses) >= 75
    assert sum(excesses) / len(excesses) < 0.01


TIGHT = [(0, 0, 3), (1, 1, 2), (0, 2, 1), (2, 2, 1), (3, 3, 2), (1, 3, 1), (4, 4, 3), (5, 5, 1), (5, 5, 2), (2, 6, 1)]


def test_the_search_proves_that_a_peak_cannot_be_reached():
    """Four lines are live at every step, and yet the blobs do not fit into four."""
    blobs = alone(Lifetime(first, last, size * ALIGNMENT) for first, last, size in TIGHT)
    placement = place(blobs)
    assert liveness_peak(blobs) == 4 * ALIGNMENT
    assert placement.nbytes == placement.least_nbytes == 5 * ALIGNMENT


def test_an_incomplete_search_proves_nothing():
    for most_nodes in (3, 10):
        offsets, complete = search(TIGHT, 6, 4, most_nodes)
        assert not complete
        assert offsets is None or not overlapping(TIGHT, offsets)


small = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=6)


@given(small)
def test_the_search_finds_what_trying_every_order_finds(drawn):
    blobs = [(first, first + length, size) for first, length, size in drawn]
    everything = sum(size for *_, size in blobs) + 1
    offsets, complete = search(blobs, everything, 0, most_nodes=100_000)
    assert complete
    assert not overlapping(blobs, offsets)
    stacks = (stacked(blobs, order) for order in permutations(range(len(blobs))))
    assert height(blobs, offsets) == min(height(blobs, stack) for stack in stacks)


def overlapping(blobs, offsets):
    """Pairs of blobs that overlap in time and in memory."""
    spans = [(*blob, at) for blob, at in zip(blobs, offsets)]
    return [
        (a, b)
        for a, b in combinations(spans, 2)
        if a[0] <= b[1] and b[0] <= a[1] and a[3] < b[3] + b[2] and b[3] < a[3] + a[2]
    ]


def height(blobs, offsets):
    return max(at + size for at, (*_, size) in zip(offsets, blobs))


def stacked(blobs, order):
    """Places each blob on top of the placed blobs whose lifetimes intersect its own."""
    offsets = {}
    for i in order:
        below = [j for j in offsets if blobs[j][0] <= blobs[i][1] and blobs[i][0] <= blobs[j][1]]
        offsets[i] = max((offsets[j] + blobs[j][2] for j in below), default=0)
    return [offsets[i] for i in range(len(blobs))]


@given(groups, st.integers(0, 8), st.sampled_from([0, 3, arena.FEW]))
def test_what_lives_long_is_placed_like_the_rest(drawn, lasting, few):
    placed = [group(one) for one in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "LASTING", lasting)
        patch.setattr(arena, "FEW", few)
        some_last = place(placed)
        patch.setattr(arena, "LASTING", 1000)
        assert place(placed) == some_last


def test_what_lives_long_is_not_listed_at_each_step(monkeypatch):
    """Such lists grow with the square of the steps: here they took ten seconds."""
    spaces = []

    class Space(arena._Space):
        def __init__(self):
            super().__init__()
            spaces.append(self)

    monkeypatch.setattr(arena, "_Space", Space)
    steps = 1500
    kept = [Lifetime(at, steps, 256 + 64 * (at % 7)) for at in range(steps)]
    scratch = [Lifetime(at, at, 640) for at in range(steps)]
    found = place(alone([*kept, *scratch]))
    assert found.nbytes >= found.least_nbytes >= sum(one.nbytes for one in kept)
    assert max(sum(map(len, space._live.values())) for space in spaces) < steps * (1 + arena.LASTING)


@given(groups, st.lists(st.integers(1, 3000), min_size=1, max_size=4))
def test_what_lives_all_the_time_lies_at_the_bottom(drawn, sizes):
    lasting = [group([Lifetime(-1, 40, nbytes)]) for nbytes in sizes]
    others = [group(one) for one in drawn]
    offsets, nbytes, least = place([*others, *lasting])
    floor = sum(one[0].nbytes for one in lasting)
    assert sorted(offsets[len(others) :])[0] == 0
    assert max(at + one[0].nbytes for at, one in zip(offsets[len(others) :], lasting)) == floor
    assert nbytes == floor + place(others).nbytes
    assert liveness_peak([*others, *lasting]) <= least <= nbytes
