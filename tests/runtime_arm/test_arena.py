from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.arena import ALIGNMENT, Lifetime, aligned, allocate, liveness_peak, place
from runtime_arm.errors import ResourceError

lifetimes = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 10), st.integers(0, 1000)).map(
        lambda t: Lifetime(t[0], t[0] + t[1], t[2])
    ),
    max_size=30,
)


@given(lifetimes)
def test_blobs_that_live_at_the_same_time_do_not_overlap(blobs):
    offsets, total = place(blobs)
    for i, (a, at) in enumerate(zip(blobs, offsets)):
        assert at % ALIGNMENT == 0
        assert at + a.nbytes <= total
        for b, bt in list(zip(blobs, offsets))[i + 1 :]:
            if a.first <= b.last and b.first <= a.last and a.nbytes and b.nbytes:
                assert at + a.nbytes <= bt or bt + b.nbytes <= at


@given(lifetimes)
def test_the_arena_is_never_smaller_than_what_is_live_nor_larger_than_everything(blobs):
    _, total = place(blobs)
    assert liveness_peak(blobs) <= total <= sum(aligned(blob.nbytes) for blob in blobs)


def test_a_chain_of_equal_blobs_needs_two():
    chain = [Lifetime(i, i + 1, 4096) for i in range(10)]
    assert place(chain)[1] == liveness_peak(chain) == 2 * 4096


def test_memory_is_aligned():
    assert allocate(100, "a test").ctypes.data % ALIGNMENT == 0
    assert allocate(0, "a test").size == 0


def test_more_memory_than_the_machine_has_is_refused():
    with pytest.raises(ResourceError, match="a test needs"):
        allocate(1 << 60, "a test")


def test_the_peak_is_reached_where_placing_the_largest_first_fails():
    blobs = [Lifetime(0, 3, 64 * 3), Lifetime(3, 6, 64), Lifetime(1, 2, 64 * 4), Lifetime(5, 7, 64 * 4)]
    assert place(blobs)[1] == liveness_peak(blobs) == 64 * 7


def test_random_blobs_mostly_reach_the_peak():
    rng = random.Random(0)
    excesses = []
    for _ in range(100):
        starts = [rng.randint(0, 30) for _ in range(rng.randint(5, 40))]
        blobs = [Lifetime(start, start + rng.randint(0, 10), 64 * rng.randint(1, 20)) for start in starts]
        excesses.append(place(blobs)[1] / liveness_peak(blobs) - 1)
    assert sum(excess == 0 for excess in excesses) >= 75
    assert sum(excesses) / len(excesses) < 0.01
