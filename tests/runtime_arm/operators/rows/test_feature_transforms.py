"""Feature transforms: loops over elements, worked examples, refusals."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import OperatorDef
from tests.support.exact import assert_same
from tests.support.operands import random


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def f32(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def run(type: str, inputs: List[Any], outputs: int = 1, **arguments: Any) -> List[Any]:
    op = OperatorDef.of(type, [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)], **arguments)
    return run_kernel(op, inputs, constants=range(len(inputs)))


def piecewise(x: float, bounds: Any, slopes: Any, intercepts: Any) -> float:
    """One piecewise function of one number."""
    if x <= bounds[0]:
        return float(slopes[0] * bounds[0] + intercepts[0])
    for low, high, slope, intercept in zip(bounds, bounds[1:], slopes, intercepts):
        if low < x <= high:
            return float(slope * x + intercept)
    return float(slopes[-1] * bounds[-1] + intercepts[-1])


def test_each_column_has_its_piecewise_function() -> None:
    x, (bounds, slopes, intercepts) = random((9, 2)) * 2, (random((2, 4)), random((2, 3), 1), random((2, 3), 2))
    bounds.sort(axis=1)
    x[0, 0], x[1, 1] = bounds[0, 1], bounds[1, -1]
    expected = np.array(
        [[piecewise(x[i, j], bounds[j], slopes[j], intercepts[j]) for j in range(2)] for i in range(9)], np.float32
    )
    tables = [bounds.reshape(-1), slopes.reshape(-1), intercepts.reshape(-1)]
    assert_close(run("PiecewiseLinearTransform", [x, *tables])[0], expected, magnitude=4)
    arguments = dict(zip(("bounds", "slopes", "intercepts"), (table.tolist() for table in tables)))
    assert_close(run("PiecewiseLinearTransform", [x], **arguments)[0], expected, magnitude=4)
    assert run("PiecewiseLinearTransform", [x[:0]], **arguments)[0].shape == (0, 2)


def test_a_binary_function_keeps_the_two_columns_complementary() -> None:
    table: Dict[str, Any] = {"bounds": [0.0, 0.5, 1.0], "slopes": [1.0, 0.5], "intercepts": [0.0, 0.25], "binary": 1}
    column = f32(-1, 0.25, 0.75, 3)
    expected = f32(0, 0.25, 0.625, 0.75)
    assert_same(run("PiecewiseLinearTransform", [column], **table)[0], expected)
    assert_same(
        run("PiecewiseLinearTransform", [np.stack([column * 9, column], 1)], **table)[0],
        np.stack([1 - expected, expected], 1),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_box_cox(dtype: str) -> None:
    x, power = random((4, 2, 3), dtype=dtype), np.array([0, 0.5, -1, 2, 0, 1], dtype)
    shift = np.array([3, 2, 4, 1, -9, 0], dtype)
    expected = np.empty((4, 6))
    for i, j in np.ndindex(4, 6):
        z = max(float(x.reshape(4, 6)[i, j]) + float(shift[j]), 1e-6)
        expected[i, j] = np.log(z) if power[j] == 0 else (z ** float(power[j]) - 1) / float(power[j])
    assert_close(run("BatchBoxCox", [x, power, shift])[0], expected.reshape(x.shape).astype(dtype), magnitude=20)
    assert run("BatchBoxCox", [x[:0], power, shift])[0].shape == (0, 2, 3)


def test_buckets_of_picked_columns() -> None:
    x = f32(1.42, 2.07, 3.19, 4.57, 2.30, 0.84, 0.5, 2.5, 0).reshape(3, 3)
    (y,) = run("BatchBucketize", [x, i32(0, 2, 1), f32(0.5, 1, 1.5, 2.5, 3.5), i32(2, 0, 3)])
    assert_same(y, np.array([[2, 0, 1], [2, 0, 1], [0, 0, 1]], np.int32))


def test_percentiles_between_samples() -> None:
    pairs = np.array([[3, 0.2], [5, 0.5], [1, 0.3], [3, 0.6]], np.float32)
    (y,) = run("Percentile", [f32(3, 5, 3, 5, 1, 6, 4, 0, 0).reshape(3, 3), pairs, i32(2, 1, 1)])
    assert_close(y, f32(0.2, 1, 0.6, 0.5, 0.3, 1, 0.35, 0, 0).reshape(3, 3), magnitude=1)
    arguments: Dict[str, Any] = {
        "percentile_raw": [1.0, 2.0, 4.0, 7.0],
        "percentile_mapping": [0.1, 0.4, 0.9, 0.5],
        "percentile_lower": [0.0, 0.3, 0.8, 0.0],
        "percentile_upper": [0.2, 0.5, 1.0, 0.0],
        "lengths": [3, 1],
    }
    (y,) = run("BisectPercentile", [f32(1, 7, 1.5, 6, 3, 8, 0, 7, 5, 7).reshape(5, 2)], **arguments)
    assert_close(y, f32(0.1, 0.5, 0.25, 0, 0.65, 1, 0, 0.5, 1, 0.5).reshape(5, 2), magnitude=1)


def test_quantiles_are_found_by_bisection() -> None:
    x = random((1000,))
    for share in (0.0, 0.1, 0.5, 0.99, 1.0):
        for magnitudes in (0, 1):
            elements = np.sort(np.abs(x) if magnitudes else x)
            (y,) = run("Quantile", [x[:400].reshape(20, 20), x[400:]], quantile=share, abs=magnitudes, tol=1e-5)
            wanted = int(np.ceil(share * 1000))
            assert y.shape == (1,)
            below = int((elements <= y[0]).sum())
            assert below == wanted if 0 < wanted < 1000 else y[0] == elements[-1 if wanted else 0]
    assert run("Quantile", [f32(2, 2, 2)], quantile=0.5)[0].tolist() == [2]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_hashes_mix_every_byte(dtype: str) -> None:
    x = np.array([[0, 1, -1], [200, -70000, 2**31 - 1]], dtype)
    bits = 8 * x.itemsize
    expected = []
    for number in x.reshape(-1):
        hashed = 5 * 0xDEADBEEF % 2**bits
        for byte in int(number).to_bytes(x.itemsize, "little", signed=True):
            hashed = (hashed * 65537 + (byte - 256 if byte > 127 else byte)) % 2**bits
        expected.append((hashed - 2**bits if hashed >= 2 ** (bits - 1) else hashed) % 97)
    assert_same(run("IndexHash", [x], seed=5, modulo=97)[0], np.array(expected, dtype).reshape(2, 3))


def test_n_grams_are_numbers_of_mixed_base() -> None:
    x = f32(1, 5, 7, 2, 5, 8.4, 3, 9, 7).reshape(3, 3)
    (y,) = run("NGramFromCategorical", [x], col_ids=[2, 0], categorical_limits=[2, 3], vals=[7, 8, 1, 2, 3])
    assert_same(y, np.array([0 + 0 * 2, 1 + 1 * 2, 0 + 2 * 2]))
    (y,) = run("NGramFromCategorical", [x], col_ids=[1], categorical_limits=[2], vals=[0, 9])
    assert_same(y, np.array([0, 0, 1]))


def test_positions_become_sines_and_cosines() -> None:
    (y,) = run(
        "SinusoidPositionEncoding", [np.array([[0, 0], [7, 7]], np.int64)], embedding_size=5, alpha=100.0, amplitude=2.0
    )
    expected = np.array(
        [[2 * (np.sin if k % 2 == 0 else np.cos)(p / 100 ** (k / 5)) for k in range(5)] for p in (0, 7)], np.float32
    )
    assert_close(y, np.stack([expected, expected], 1))


def test_codes_are_looked_up() -> None:
    codebook = random((7,))
    codes = [np.array([[6, 0]], np.uint8), i32(3)]
    for y, code in zip(run("QuantDecode", [codebook, *codes], 2), codes):
        assert_same(y, codebook[code])


@pytest.mark.parametrize("spacing", ["linear", "logarithmic"])
def test_bins_span_the_elements(spacing: str) -> None:
    x = np.abs(random((50,))) + np.float32(0.1)
    edges, counts = run("SelfBinningHistogram", [x[:20], x[20:]], 2, num_bins=7, bin_spacing=spacing)
    assert edges[0] == x.min()
    assert edges[-1] > x.max()
    ratios = np.diff(edges) if spacing == "linear" else edges[1:] / edges[:-1]
    assert_close(ratios, np.full(7, ratios.mean(), np.float32), magnitude=10)
    expected = [sum(low <= v < high for v in x) for low, high in zip(edges, edges[1:])]
    assert counts.tolist() == [*expected, 0]
    edges, counts = run("SelfBinningHistogram", [f32(-2, -2, 2)], 2, num_bins=3, abs=1)
    assert counts.tolist() == [3, 0, 0, 0]


@pytest.mark.parametrize(
    ("type", "inputs", "arguments", "rule"),
    [
        ("PiecewiseLinearTransform", [random((2, 2))], {}, "all arguments or all inputs"),
        (
            "PiecewiseLinearTransform",
            [random((2, 2))],
            {"bounds": [1.0, 0.0], "slopes": [1.0], "intercepts": [1.0]},
            "one column for each of the 1",
        ),
        (
            "PiecewiseLinearTransform",
            [random((2, 1))],
            {"bounds": [1.0, 0.0], "slopes": [1.0], "intercepts": [1.0]},
            "ascend",
        ),
        ("BatchBoxCox", [random((2, 2)), random((3,)), random((2,))], {}, "2 elements"),
        ("BatchBucketize", [random((2, 2)), i32(2), f32(0), i32(1)], {}, "must be 0 to 1"),
        ("BatchBucketize", [random((2, 2)), i32(1), f32(0), i32(2)], {}, "add up to 1"),
        ("Quantile", [f32(1)], {}, "quantile must be 0 to 1"),
        ("IndexHash", [i32(1)], {}, "modulo must be positive"),
        ("NGramFromCategorical", [random((2, 2))], {"col_ids": [2], "categorical_limits": [1], "vals": [1]}, "columns"),
        ("QuantDecode", [f32(1, 2), i32(2)], {}, "must be 0 to 1"),
        ("SelfBinningHistogram", [f32(1)], {}, "num_bins"),
    ],
)
def test_refusals_say_why(type: str, inputs: List[Any], arguments: Any, rule: str) -> None:
    with pytest.raises(OperatorError, match=rule):
        run(type, inputs, 2 if type.endswith("Histogram") else 1, **arguments)
