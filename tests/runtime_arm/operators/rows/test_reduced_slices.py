"""Sums, means and maxima of slices of rows, against a loop in NumPy."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.kernel import REFERENCE
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

FUNCTIONS = {"Sum": np.sum, "Mean": np.mean, "Max": np.max}
NOTHING = {"Sum": 0, "Mean": 0, "Max": -np.inf}


def expected(reduction: str, rows: Any, starts: Any, ends: Any, count: int) -> Any:
    """As the loop says it, slice by slice; Python cuts slices and counts from the end as ONNX does."""
    slices = [rows[start:end].astype(np.float64) for start, end in zip(starts[:count], ends[:count])]
    results = [
        FUNCTIONS[reduction](part, axis=0) if len(part) else np.full(rows.shape[1:], NOTHING[reduction])
        for part in slices
    ]
    return np.array(results, np.float32).reshape((count, *rows.shape[1:]))


def op_of(reduction: str) -> OperatorDef:
    return OperatorDef.of("ReduceSlices", list("xsecip"), ["y"], domain="armnet", reduction=reduction)


@pytest.mark.parametrize("engine", [REFERENCE, "BLOCKS"])
@pytest.mark.parametrize("reduction", FUNCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_slices_anywhere(engine: str, reduction: str, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows, table = data.draw(st.integers(0, 400)), data.draw(st.integers(1, 20))
    bags = data.draw(st.integers(0, 90))
    count = data.draw(st.integers(0, bags))
    width = data.draw(st.sampled_from([(), (3,), (2, 3), (900,)]))  # of the widest, 72 rows are a block
    picks, weighted = data.draw(st.booleans()), data.draw(st.booleans())
    x = rng.standard_normal((table if picks else max(rows, 1), *width)).astype(np.float32)
    rows = rows if picks else len(x)
    indices = rng.integers(-table, table, rows) if picks else None
    weights = rng.standard_normal(rows).astype(np.float32) if weighted else None
    starts, ends = rng.integers(-rows - 3, rows + 4, (2, bags))
    if data.draw(st.booleans()):
        starts = np.sort(starts.clip(0, rows))
        ends = np.append(starts[1:], rows)[:bags]
    (y,) = run_kernel(op_of(reduction), [x, starts, ends, np.array(count), indices, weights], engine, constants=(3,))
    picked = x if indices is None else x[indices]
    if weights is not None:
        picked = picked * weights.reshape((-1,) + (1,) * (x.ndim - 1)).astype(np.float64)
    assert_close(y, expected(reduction, picked, starts, ends, count), terms=max(rows, 1))


@pytest.mark.parametrize("reduction", FUNCTIONS)
def test_they_allocate_nothing_while_they_run(reduction: str) -> None:
    bags = 1 << 17
    x, starts = np.ones((99, 4), np.float32), np.arange(bags) % 101 - 2
    inputs = [x, starts, starts + 3, np.array([bags]), np.arange(99), np.ones(99, np.float32)]
    assert allocated_nbytes(op_of(reduction), inputs, "BLOCKS", constants=[3]) < NUMPY_NBYTES


@pytest.mark.parametrize("engine", [REFERENCE, "BLOCKS"])
def test_only_indices_that_a_slice_reads_must_fit(engine: str) -> None:
    x, indices = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 9, 2])
    inputs = [x, np.array([0, 2]), np.array([1, 3]), np.array([2]), indices, None]
    assert run_kernel(op_of("Sum"), inputs, engine, constants=(3,))[0].tolist() == [[0, 1], [4, 5]]
    inputs[2] = np.array([2, 3])
    with pytest.raises(OperatorError, match="index 9 is out of range"):
        run_kernel(op_of("Sum"), inputs, engine, constants=(3,))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({0: np.zeros(3)}, "X must be float32"),
        ({3: np.array(4)}, "count must be one number"),
        ({4: np.zeros((1, 3), np.int64)}, "indices must be a vector"),
        ({5: np.zeros(2, np.float32)}, "there must be 3 weights"),
    ],
)
def test_what_does_not_fit_is_refused(changed: Dict[int, Any], message: str) -> None:
    x, ends = np.zeros((3, 2), np.float32), np.array([1, 2, 3])
    given: Dict[int, Any] = {0: x, 1: ends, 2: ends, 3: np.array(3), 4: ends - 1, 5: None, **changed}
    with pytest.raises(OperatorError, match=message):
        run_kernel(op_of("Sum"), [given[place] for place in range(6)], constants=(3,))


def test_reductions_are_known_by_name() -> None:
    x = np.zeros((3, 2), np.float32)
    with pytest.raises(OperatorError, match="reduction must be one of Sum, Mean, Max"):
        run_kernel(op_of("Min"), [x, np.array([0]), np.array([1]), np.array(1), None, None], constants=(3,))
