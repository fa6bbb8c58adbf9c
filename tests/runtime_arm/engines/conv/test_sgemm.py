"""BLAS adds products to what lies in their place."""

from __future__ import annotations

import numpy as np
import pytest

from runtime_arm.engines.conv.sgemm import add_product, can_add
from runtime_arm.machine import blas

pytestmark = pytest.mark.skipif(not can_add(), reason="NumPy's BLAS is none that can be asked")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 1, 1), (5, 3, 1), (1, 300, 7), (130, 70, 90)])
def test_products_are_added_to_a_slice(rows: int, depth: int, columns: int, turned: bool) -> None:
    draw = np.random.default_rng(rows)
    a, b = (draw.integers(-4, 5, shape).astype(np.float32) for shape in ((rows, depth + 2), (depth, columns + 1)))
    wide = draw.integers(-4, 5, (rows, columns + 5)).astype(np.float32)
    expected = wide.copy()
    left, right, out = a[:, 1:-1], b[:, 1:], wide[:, 2 : 2 + columns]
    expected[:, 2 : 2 + columns] += left @ right
    if turned:
        left = np.asfortranarray(left)
    step = add_product(left, right, out)
    step()
    np.testing.assert_array_equal(wide, expected)


def test_no_other_blas_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    can_add.__globals__["_sgemm"].cache_clear()
    monkeypatch.setattr(blas, "loaded", lambda: None)
    assert not can_add()
    monkeypatch.undo()
    can_add.__globals__["_sgemm"].cache_clear()
