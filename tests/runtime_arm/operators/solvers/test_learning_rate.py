"""Learning-rate policies that no recorded run covers; refusals; Caffe's policies."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef


def rates(iterations: List[int], domain: str = "", **arguments: Any) -> List[float]:
    op = OperatorDef.of("LearningRate", ["it"], ["lr"], domain=domain, base_lr=1.0, **arguments)
    return [float(run_kernel(op, [np.array([at], np.int64)])[0]) for at in iterations]


def test_hill_climbs_falls_and_ends() -> None:
    hill = {"num_iter": 4, "start_multiplier": 0.2, "gamma": 1.0, "power": 1.0, "end_multiplier": 0.25}
    assert rates([0, 2, 4, 5, 100], policy="hill", **hill) == pytest.approx([0.2, 0.6, 1.0, 0.5, 0.25])


def test_cyclical_rises_and_falls() -> None:
    got = rates([0, 5, 10, 15, 20], policy="cyclical", max_lr=3.0, stepsize=10, decay=1.0)
    assert got == pytest.approx([1, 2, 3, 2, 1])


def test_slope_is_a_line_between_two_iterations() -> None:
    slope = {"num_iter_1": 10, "multiplier_1": 1.0, "num_iter_2": 20, "multiplier_2": 0.5}
    assert rates([0, 10, 15, 20, 30], policy="slope", **slope) == pytest.approx([1, 1, 0.75, 0.5, 0.5])


def test_composite_cosine_warms_up_first() -> None:
    got = rates(
        [0, 3, 4, 8, 13],
        policy="compositeCosine",
        start_warmup_multiplier=0.5,
        constant_warmup_num_iter=2,
        linear_warmup_num_iter=2,
        cosine_max_lr=2.0,
        cosine_min_lr=0.0,
        cosine_period=8,
        cosine_t_mult=1.0,
        cosine_lr_shrink=0.5,
    )
    assert got == pytest.approx([0.5, 0.75, 2.0, 1.0, 0.5 * (1 + np.cos(np.pi / 8))])


def test_a_composite_of_three_parts_counts_from_one() -> None:
    parts = {f"sub_policy_{i}_{name}": value for i in range(3) for name, value in (("policy", "fixed"),)}
    parts.update(sub_policy_1_lr_scale=0.5, sub_policy_2_lr_scale=0.25, sub_policy_num_iters=[10, 20, 30])
    assert rates([1, 10, 11, 30, 31, 99], policy="composite", **parts) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    with pytest.raises(ArgumentError, match="from 1"):
        rates([0], policy="composite", **parts)


def test_rates_that_are_no_real_numbers_are_nan_or_infinite() -> None:
    assert np.isnan(rates([7], policy="poly", power=0.5, max_iter=5)[0])
    assert np.isinf(rates([4000], policy="exp", gamma=10.0)[0])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"policy": "step", "gamma": 0.5}, "'stepsize' must be at least 1"),
        ({"policy": "nothing"}, "must be one of alter, "),
        ({}, "must be one of alter, "),
        ({"policy": "composite"}, "sub_policy_num_iters"),
        (
            {"policy": "composite", "sub_policy_num_iters": [3], "sub_policy_0_policy": "composite"},
            "must not be composite",
        ),
        ({"policy": "alter", "active_period": 0, "inactive_period": 0}, "not both be 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        rates([1], **arguments)


@pytest.mark.parametrize(
    ("arguments", "at", "expected"),
    [
        ({"lr_policy": "fixed"}, 9, 1.0),
        ({"lr_policy": "step", "gamma": 0.5, "stepsize": 4}, 9, 0.25),
        ({"lr_policy": "exp", "gamma": 0.5}, 3, 0.125),
        ({"lr_policy": "inv", "gamma": 1.0, "power": 2.0}, 1, 0.25),
        ({"lr_policy": "multistep", "gamma": 0.5, "stepvalue": [3, 5]}, 5, 0.25),
        ({"lr_policy": "poly", "power": 2.0, "max_iter": 4}, 2, 0.25),
        ({"lr_policy": "sigmoid", "gamma": 1.0, "stepsize": 5}, 5, 0.5),
    ],
)
def test_caffe_policies(arguments: Any, at: int, expected: float) -> None:
    assert rates([at], domain="caffe", **arguments) == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"lr_policy": "cosine"}, "must be one of exp, fixed"),
        ({"lr_policy": "step", "gamma": 0.5}, "positive stepsize"),
        ({"lr_policy": "sigmoid", "gamma": -1.0}, "gamma of 0 or more"),
    ],
)
def test_wrong_caffe_policies_are_refused(arguments: Any, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        rates([1], domain="caffe", **arguments)
