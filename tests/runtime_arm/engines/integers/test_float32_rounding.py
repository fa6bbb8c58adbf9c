"""Requantisation in float32 against the rounding rules in integers, on both sides of every step."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.engines.integers import float32_rounding
from runtime_arm.engines.integers.arithmetic import EXACT
from runtime_arm.engines.integers.exact_steps import STEPS
from runtime_arm.engines.integers.float32_rounding import LEAST_SUMS, Rule, Sums, prove
from runtime_arm.engines.integers.requantisation import Ending, Requantisation
from runtime_arm.netdef import Array
from runtime_arm.operators.quantised.rounding import Requantizer

LIMITS = {"uint8": (0, 255), "int8": (-128, 127)}
MULTIPLIERS = st.floats(-14, 0.5).map(lambda power: 2.0**power) | st.sampled_from([0.5, 0.25, 2.0**-9, 1.5, 0.0])


def by_rule(rule: Rule, sums: Array, dtype: str) -> Array:
    """Rows of sums with their offsets, (pixels, M), rounded by the rule in its own arithmetic."""
    exact = Requantizer(rule.name, rule.multiplier, rule.zero_point, rule.low, rule.high)
    result = np.empty(sums.shape, dtype)
    exact(sums, result, [np.empty(sums.shape, name) for name in exact.work_dtypes])
    return result


def around_steps(rule: Rule, sums: Sums) -> Array:
    """Sums without their offsets, (pixels, M): all that lie near a step, and the ends of what is possible."""
    outputs = np.arange(rule.low, rule.high + 2)[:, None] - rule.zero_point
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.nan_to_num(np.rint((outputs - 0.5) / rule.multiplier)) - sums.offset
    near = (places[:, None] + np.arange(-3, 4)[:, None]).reshape(-1, places.shape[1])
    ends = [sums.lowest, sums.highest, np.zeros_like(sums.lowest), -sums.offset, -sums.offset - 1]
    pixels = np.clip(np.concatenate([near, ends]), sums.lowest, sums.highest)
    return np.asarray(pixels, np.int64)


def rounded(ending: Ending, sums: Array, dtype: str, run: int, blocks: int) -> Array:
    """What the steps of a Requantisation make of float32 sums."""
    result, block = np.empty(sums.shape, dtype), sums.astype(np.float32)
    work = [np.full(sums.size, np.nan) for _ in range(2)]
    requantisation = Requantisation(ending, run, work, sums.size, blocks)
    shape = (-1, run * sums.shape[1])
    for step in [*requantisation.first(), *requantisation.steps(block.reshape(shape), result.reshape(shape))]:
        step()
    return result


@given(data=st.data())
def test_every_formula_equals_its_rule_around_every_step(data: st.DataObject) -> None:
    draw: Any = data.draw
    name, dtype = draw(st.sampled_from(list(STEPS))), draw(st.sampled_from(list(LIMITS)))
    low, high = LIMITS[dtype]
    zero_point = draw(st.integers(low, high) | st.sampled_from([low, high, 0]))
    low = max(low, zero_point) if draw(st.booleans()) else low
    high = draw(st.integers(low + 1, high)) if low < high and draw(st.booleans()) else high
    filters = draw(st.integers(1, 12))
    multiplier = np.array(draw(st.lists(MULTIPLIERS, min_size=filters, max_size=filters)))
    multiplier = multiplier[:1] if draw(st.booleans()) else multiplier
    multiplier = np.minimum(multiplier, 0.99) if name == "gemmlowp" else multiplier
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    reach = rng.integers(1, draw(st.sampled_from([2**10, 2**18, EXACT - 1])), (2, filters))
    reach[:, rng.random(filters) < 0.1] = 0
    offset = rng.integers(-(draw(st.sampled_from([1, 2**12, 2**20, 2**25]))), 2**10, filters)
    rule, sums = Rule(name, multiplier, zero_point, low, high), Sums(-reach[0], reach[1], offset)
    pixels = around_steps(rule, sums)
    pixels = pixels[: len(pixels) // 2 * 2]
    ending = Ending.of(rule, sums, LEAST_SUMS)
    result = rounded(ending, pixels, dtype, run=2, blocks=draw(st.sampled_from([1, 5])))
    np.testing.assert_array_equal(result, by_rule(rule, pixels + offset, dtype))


@pytest.mark.parametrize("zero_point", [-128, 5])
@pytest.mark.parametrize("name", list(STEPS))
def test_a_formula_is_found_for_most_filters_of_a_usual_layer(name: str, zero_point: int) -> None:
    rng = np.random.default_rng(3)
    filters = 256
    rule = Rule(name, 2.0 ** rng.uniform(-9, -5, filters), zero_point, -128, 127)
    sums = Sums(np.full(filters, -(2**18)), np.full(filters, 2**18), rng.integers(-9999, 9999, filters))
    formula = prove(rule, sums, LEAST_SUMS)
    assert formula is not None
    assert len(formula.rest) < filters * 0.08
    assert prove(rule._replace(multiplier=rule.multiplier[:1]), sums, 1) is not None  # one proof serves all filters


def test_no_formula_where_sums_are_not_exact_in_float32_or_too_few() -> None:
    rule = Rule("tflite_ref", np.array([0.01, 0.02]), 0, 0, 255)
    small, large = np.array([1000, 1000]), np.array([EXACT, 1000])
    assert prove(rule, Sums(-large, small, small), LEAST_SUMS) is None
    assert prove(rule, Sums(-small, small, small), LEAST_SUMS - 1) is None
    assert prove(rule._replace(name="tflite_wide"), Sums(-small, small, small), LEAST_SUMS) is None


@pytest.mark.parametrize("zero_point", [-128, 5])
@pytest.mark.parametrize("name", list(STEPS))
def test_filters_of_zeros_need_no_rule(name: str, zero_point: int) -> None:
    ends, offset = np.array([1000, *[0] * 6]), np.array([3, 7_520_473, -4_000_000, 12, -90_000, 0, 5])
    rule = Rule(name, np.array([0.01, 1.04e-05, 3e-5, 0.0, 0.002, 0.1, 0.1]), zero_point, -128, 127)
    ending = Ending.of(rule, Sums(-ends, ends, offset), LEAST_SUMS)
    assert ending.formula is not None
    assert {*ending.formula.rest} <= {0}
    sums = np.zeros((2, 7), np.int64)
    np.testing.assert_array_equal(rounded(ending, sums, "int8", 1, 1), by_rule(rule, sums + offset, "int8"))


def test_negative_multipliers_stay_with_the_rule() -> None:
    rule = Rule("tflite_ref", np.array([-0.01, *[0.02] * 9]), 3, 0, 255)
    ends = np.full(10, 20000)
    formula = prove(rule, Sums(-ends, ends, np.zeros(10, np.int64)), LEAST_SUMS)
    assert formula is not None
    assert formula.rest.tolist() == [0]


def test_a_proof_fails_if_the_multiplier_is_not_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are believed only if they are right: here all are wrong."""
    rule = Rule("tflite_ref", np.full(4, 0.0123), 0, 0, 255)
    ends = np.full(4, 30000)
    sums = Sums(-ends, ends, np.zeros(4, np.int64))
    assert prove(rule, sums, LEAST_SUMS) is not None
    wrong = [tries._replace(places=(200, -200)) for tries in float32_rounding._TRIES]
    monkeypatch.setattr(float32_rounding, "_TRIES", wrong)
    assert prove(rule, sums, LEAST_SUMS) is None


@pytest.mark.parametrize("name", list(STEPS))
def test_formulas_are_the_same_whether_all_steps_are_compared_or_the_near_ties(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is proven by few steps holds for all."""
    rng = np.random.default_rng(11)
    filters = 200
    rule = Rule(name, 2.0 ** rng.uniform(-13, -3, filters), 40, 40 if name == "onnx_even" else 0, 255)
    reach = rng.integers(100, 2**20, filters)
    sums = Sums(-reach, reach, rng.integers(-9999, 9999, filters))
    monkeypatch.setattr(float32_rounding, "LARGEST_PART", 1)
    formula = prove(rule, sums, LEAST_SUMS)
    assert formula is not None
    task = float32_rounding._Task.of(rule, rule.multiplier, sums)
    monkeypatch.setattr(float32_rounding, "near_tie_steps", _every_step)
    table = float32_rounding._Table(task, np.arange(filters), float32_rounding._TRIES[0])
    away = np.zeros(filters, np.float32) if formula.away is None else formula.away
    add, away, scale = (values.reshape(-1, 1) for values in (formula.add, away, formula.scale))
    proven = np.ones(filters, bool)
    proven[formula.rest] = False
    assert table.holds(table.room(scale), add, away, scale)[proven].all()
    assert proven.sum() > filters * 0.6


def _every_step(k: Array, target: Array, steps: Any, ends: Any, places: int, leeway: float) -> Tuple[Array, Array]:
    rows = len(steps.scale)
    return np.tile(np.arange(len(k)), (rows, 1)), np.full((rows, 1), 1e9)
