"""Copies by items of several numbers do what copies of numbers do."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from runtime_arm.registry.steps import MOST_ITEM, VIEWS_LINES, copy

TYPES = st.sampled_from(["float32", "uint8", "int64", "bool"])


@st.composite
def views(draw: Any) -> Tuple[Any, Any]:
    """Two views of one shape, of memory with gaps, axes in any order and some of one element."""
    shape = draw(
        st.lists(st.sampled_from([1, 2, 3, 5, 300]), min_size=0, max_size=4).filter(lambda s: np.prod(s) < 1e5)
    )
    found = []
    for _ in range(2):
        wider = [size + draw(st.integers(0, 2)) for size in shape]
        order = draw(st.permutations(range(len(shape))))
        memory = np.zeros([wider[axis] for axis in order], draw(TYPES) if not found else found[0].dtype)
        memory.reshape(-1)[:] = np.arange(memory.size) % 251
        found.append(memory.transpose(np.argsort(order))[(..., *map(slice, shape))])
    return found[0], found[1]


@given(views())
def test_it_copies_everything_and_nothing_else(pair: Tuple[Any, Any]) -> None:
    target, source = pair
    whole = target
    while whole.base is not None:
        whole = whole.base
    expected = whole.copy()
    view = as_strided(expected, target.shape, target.strides)  # begins where the memory does, as the target
    view[...] = source
    copy(target, source)()
    np.testing.assert_array_equal(target, source)
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.skipif(not VIEWS_LINES, reason="NumPy before 1.23 cannot view lines with gaps as items of another size")
def test_a_run_is_one_item() -> None:
    target, source = np.zeros((4, 9, 8), np.float32)[:, :7], np.ones((4, 7, 16), np.float32)[..., :8]
    assert copy(target, source).args[1].dtype.itemsize == 8 * 4  # type: ignore[attr-defined]
    copy(target, source)()
    assert target.all()


@pytest.mark.parametrize("length", [MOST_ITEM // 4 + 1, 1])
def test_runs_that_are_long_or_of_one_number_stay_numbers(length: int) -> None:
    target, source = np.zeros((4, length + 1), np.float32)[:, :length], np.ones((4, length), np.float32)
    assert copy(target, source).args[1] is source  # type: ignore[attr-defined]


def test_a_source_may_be_broadcast_and_of_another_type() -> None:
    target = np.zeros((3, 2), np.float64)
    copy(target, np.array([1, 2], np.float32))()
    np.testing.assert_array_equal(target, [[1, 2]] * 3)
    with pytest.raises(AssertionError):
        copy(np.zeros(2, np.int32), np.zeros(2, np.float32))
