"""Steps that overwrite an operand: they compute the same, and NumPy makes no copy of it."""

from __future__ import annotations

from functools import partial
from typing import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.netdef import Array
from runtime_arm.registry.in_place import MOST_PARTS, parts, updates
from runtime_arm.registry.steps import in_turn
from tests.support.allocation import NUMPY_NBYTES, nbytes_of_second_run


def strided(shape: Sequence[int], strides: Sequence[int]) -> Array:
    """A view of float32 numbers with these strides, in elements."""
    reach = 1 + sum((size - 1) * step for size, step in zip(shape, strides))
    memory = np.random.default_rng(0).standard_normal(reach).astype(np.float32)
    return np.lib.stride_tricks.as_strided(memory, shape, [4 * step for step in strides])


@st.composite
def views(draw: st.DrawFn) -> Array:
    """Views whose elements do not overlap, with gaps or without."""
    shape, strides, step = [], [], draw(st.integers(1, 3))
    for size in draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)):
        shape.append(size)
        strides.append(step)
        step = step * size + draw(st.sampled_from([0, 0, 1, 2, 5, 17]))
    order = draw(st.permutations(range(len(shape))))
    return strided([shape[axis] for axis in order], [strides[axis] for axis in order])


@settings(max_examples=200)
@given(views())
def test_they_change_every_element_once(view: Array) -> None:
    bound = np.linspace(-1, 1, view.shape[-1]).astype(np.float32)
    wanted = view + bound
    in_turn(updates(np.add, view, bound))()
    np.testing.assert_array_equal(view, wanted)


@pytest.mark.parametrize(
    ("shape", "strides", "count"),
    [
        ((50000,), (3,), 1),
        ((4, 10000), (11717, 1), 1),
        ((4, 16, 896), (16 * 896, 896, 1), 1),  # contiguous
        ((4, 16, 896), (15616, 896, 1), 4),
        ((16, 4, 896), (896, 15616, 1), 4),
        ((2, 2, 3, 16384), (115328, 57664, 16384, 1), 3),  # by its third axis, as the first two are one for NumPy
        ((2, 2, 640, 16), (327680, 163840, 256, 1), 1),  # a slice of channels
    ],
)
def test_they_are_few_and_numpy_copies_nothing(shape: Sequence[int], strides: Sequence[int], count: int) -> None:
    view = strided(shape, strides)
    assert view.nbytes > NUMPY_NBYTES
    steps = updates(np.maximum, view, np.ones((), np.float32))
    assert len(steps) == count
    assert nbytes_of_second_run(in_turn(steps)) <= NUMPY_NBYTES


def test_numpy_copies_what_is_not_cut() -> None:
    view = strided((4, 16, 896), (15616, 896, 1))
    step = partial(np.maximum, view, np.ones((), np.float32), out=view)
    assert nbytes_of_second_run(step) >= view.nbytes


def test_an_operand_within_the_target_is_read_before_it_changes() -> None:
    view = strided((4, 16, 896), (15616, 896, 1))
    wanted = view + view[:1]
    in_turn(updates(np.add, view, view[:1]))()
    np.testing.assert_array_equal(view, wanted)


@pytest.mark.parametrize(
    ("shape", "strides"), [((100, 100, 100), (19999, 103, 1)), ((20, 30, 40, 50), (999983, 31013, 631, 1))]
)
def test_odd_strides_do_not_make_too_many(shape: Sequence[int], strides: Sequence[int]) -> None:
    view = strided(shape, strides)
    wanted = view + 1
    assert len(parts(view)) <= MOST_PARTS
    in_turn(updates(np.add, view, np.ones((), np.float32)))()
    np.testing.assert_array_equal(view, wanted)


@pytest.mark.parametrize("shape", [(), (0, 3), (4, 3, 0), (1, 1)])
def test_small_and_empty_targets_take_one(shape: Sequence[int]) -> None:
    target = np.zeros(shape, np.float32)
    in_turn(updates(np.add, target, np.ones((), np.float32)))()
    assert len(parts(target)) == 1
    np.testing.assert_array_equal(target, np.ones(shape, np.float32))


def test_targets_may_run_backwards() -> None:
    view = strided((4, 16, 896), (15616, 896, 1))[::-1, ::-1, ::-1]
    bound = np.linspace(-1, 1, 896).astype(np.float32)
    wanted = view + bound
    in_turn(updates(np.add, view, bound))()
    np.testing.assert_array_equal(view, wanted)
