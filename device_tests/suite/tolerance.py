"""How far a float result may be from the exact one. All tolerances of the project are defined here.

A sum of ``terms`` products in float32 differs from the exact sum by at most  gamma = terms * u / (1 - terms * u)
times the sum of the magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., eq. 3.5), where u =
2**-24. Since rounding errors have both signs, 4 * sqrt(terms) * u  holds in practice (Higham and Mary, SIAM J. Sci.
Comput. 41(5), 2019). That much is allowed, plus a few units for operations before and after the sum.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np

UNIT = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
ELEMENTWISE_UNITS = 8.0  # a chain of two or three roundings, and transcendental functions good to 4 units
RECORDED_APPROXIMATELY = 1e-3  # for recorded runs of NNPACK, relative to the largest magnitude
HYBRID_STATE = 0.05  # for recurrent layers that round states to 8 bits in each step, of the largest magnitude: a state
# between two integers may become either, 1/127 of the largest apart, and steps that follow have it with them
WHOLE_NETWORK = 1e-4  # for the output of a float network with many layers, relative to its largest magnitude


def relative_bound(terms: int, dtype: Any = np.float32) -> float:
    """The error allowed for a sum of ``terms`` terms, relative to the sum of their magnitudes."""
    return (ELEMENTWISE_UNITS + 4.0 * math.sqrt(terms)) * UNIT[np.dtype(dtype).name]


def assert_close(
    actual: Any,
    expected: Any,
    *,
    terms: int = 1,
    magnitude: Optional[Any] = None,
    amplification: float = 1.0,
    what: str = "",
) -> None:
    """AssertionError unless ``actual`` is close to ``expected``: floats by the rule above, everything else equal.

    magnitude: the sum of the terms' magnitudes, for each element or as one number; by default the largest magnitude of
    ``expected``. amplification: the factor by which an algorithm amplifies rounding errors, such as Winograd's
    transforms, from its own analysis.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    if expected.dtype.name not in UNIT:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite], err_msg=what)
    if magnitude is None:
        magnitude = np.abs(expected[finite].astype(np.float64)).max() if finite.any() else 0.0
    allowed = np.broadcast_to(
        amplification * relative_bound(terms, expected.dtype) * np.asarray(magnitude, np.float64), expected.shape
    )
    error = np.zeros(expected.shape)
    np.subtract(actual, expected, where=finite, out=error, dtype=np.float64)
    np.abs(error, out=error)
    worst = np.unravel_index(np.argmax(error - allowed), error.shape) if error.size else ()
    assert not error.size or bool(np.all(error[finite] <= allowed[finite])), (
        f"{what}: {actual[worst]!r} at {tuple(int(i) for i in worst)}, expected {expected[worst]!r}, "
        f"error {error[worst]:.3g}, allowed {allowed[worst]:.3g}"
    )


def assert_each_close(actual: Any, expected: Any, *, terms: int = 1, what: str = "") -> None:
    """AssertionError unless every float is close to the expected one by the rule above, with its own magnitude.

    For sums without cancellation. ``expected`` may be of another dtype than ``actual``, such as numbers in Python.
    """
    actual = np.asarray(actual)
    assert_close(actual, np.asarray(expected, actual.dtype), terms=terms, magnitude=np.abs(expected), what=what)


def assert_network_close(actual: Any, expected: Any, *, relative: float = WHOLE_NETWORK, what: str = "") -> None:
    """AssertionError unless a network's output is within ``relative`` of the largest magnitude of ``expected``."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    ours, wanted = actual.astype(np.float64), expected.astype(np.float64)
    largest = float(np.abs(wanted).max(initial=0.0)) or 1.0
    error = float(np.abs(ours - wanted).max(initial=0.0)) / largest
    assert error <= relative, f"{what}: error {error:.3g} of the largest magnitude, allowed {relative:.3g}"
