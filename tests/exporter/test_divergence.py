"""How far two runs are apart, and the guesses at why."""

from __future__ import annotations

import numpy as np
import pytest

from exporter.divergence import divergences, likely_cause, relative_error

X = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float32)


def bordered(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    y[:, :, 0] += 1
    return y


@pytest.mark.parametrize(("theirs", "ours", "cause"), [
    (X, X[:, ::-1], "channel order"),
    (X, bordered(X), "only the border differs"),
    (X, X.swapaxes(2, 3), "the same values in another order"),
    (X, 2 * X, "a constant factor of 2"),
    (X, X + np.float32(0.5), "a constant offset of 0.5"),
    (X, np.where(X > 2, np.nan, X), "infinities or NaN"),
    (X, X**3, "different arithmetic"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_cause_is_guessed(theirs: np.ndarray, ours: np.ndarray, cause: str) -> None:
    assert cause in likely_cause(theirs, ours)
    assert [row.diverges for row in divergences({"y": theirs}, {"y": ours}, {}, 1e-4)] == [True]


def test_errors_are_relative_to_the_largest_magnitude() -> None:
    assert relative_error(np.array([100.0, 0.0]), np.array([100.0, 1.0])) == pytest.approx(0.01)


def test_rounding_of_blobs_that_are_small_everywhere_is_no_divergence() -> None:
    eps = np.finfo(np.float32).eps
    small = np.full(4, 1e-5, np.float32)
    assert relative_error(small, small + eps) == 0
    assert relative_error(small, 2 * small) == pytest.approx(1, rel=1e-6)


def test_infinities_must_be_in_the_same_places() -> None:
    assert relative_error(np.array([np.inf, 1.0]), np.array([np.inf, 1.0])) == 0
    assert relative_error(np.array([np.inf, 1.0]), np.array([-np.inf, 1.0])) == np.inf
