"""Panels: the product is the same, however the matrices are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.gemm import Panels


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 96, 97, 241, 1000])
@pytest.mark.parametrize(("depth", "width"), [(3, 64), (64, 128), (130, 192), (512, 64), (20, 50)])
def test_products(rows: int, depth: int, width: int, small: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    draw = np.random.default_rng(rows)
    a, b = (draw.integers(-8, 9, shape).astype(np.float32) for shape in ((2, rows, depth), (2, depth, width)))
    out = np.full((2, rows, 2 * width), np.nan, np.float32)[:, :, :width]
    for step in Panels(b, rows).multiply(a, out):
        step()
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize(
    ("hint", "panel"),
    [
        (None, 64),
        (32, 32),
        (8, 8),
        (96, 96),
        (0, 192),
        (192, 192),
        (7, 64),
        (4, 64),
        (48, 48),
        (50, 64),
        (-8, 64),
        (384, 64),
    ],
)
def test_a_hint_sets_the_width_of_panels_if_it_is_valid(hint: Any, panel: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    b = np.random.default_rng(0).integers(-8, 9, (64, 192)).astype(np.float32)
    a, out = np.ones((1, 100, 64), np.float32), np.full((1, 100, 192), np.nan, np.float32)
    panels = Panels(b, 100, hint)
    assert panels.panel == panel
    for step in panels.multiply(a, out):
        step()
    np.testing.assert_array_equal(out, a @ b)


def test_small_products_stay_small(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    a, out = np.ones((1, 1009, 128), np.float32), np.empty((1, 1009, 256), np.float32)
    panels = Panels(np.ones((128, 256), np.float32), 1009)
    sizes = [step.args[0].shape[-3:-1] for step in panels.multiply(a, out)]  # type: ignore[attr-defined]
    assert panels.panel < 256
    assert all(rows * 128 * panels.panel <= gemm.SMALL_PRODUCT for _, rows in sizes)
    assert {rows for _, rows in sizes} == {112, 113}


@pytest.mark.parametrize(("depth", "width"), [(33, 64), (193, 32), (97, 24), (128, 16)])
def test_a_matrix_of_a_single_panel_is_multiplied_in_small_products(depth: int, width: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    a, out = np.ones((1, 3136, depth), np.float32), np.empty((1, 3136, width), np.float32)
    panels = Panels(np.ones((depth, width), np.float32), 3136)
    sizes = [step.args[0].shape[-2] for step in panels.multiply(a, out)]  # type: ignore[attr-defined]
    assert all(rows * depth * width <= gemm.SMALL_PRODUCT for rows in sizes)


def test_deep_matrices_are_cut_where_wide_vectors_take_two_steps(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    widths = []
    for halves in (False, True):
        monkeypatch.setattr(gemm, "halves_vectors", lambda halves=halves: halves)
        widths.append(gemm.panel_width(196, 1152, 256))
    assert widths == [None, 32]


def test_workers_share_panels_evenly_if_a_width_allows_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    assert [gemm.panel_width(196, 128, 192, shares) for shares in (1, 2, 3, 4)] == [64, 48, 64, 48]
    assert gemm.panel_width(196, 128, 64, 3) == 64
