"""Recorded gradients and training runs of the real Caffe."""

from __future__ import annotations

import pytest

from tests.support.training_goldens import parameters
from tests.training.caffe.recorded import Case, run_gradients, run_solver


@pytest.mark.parametrize("case", parameters("caffe_gradients"))
def test_gradients_are_those_of_caffe(case: Case) -> None:
    run_gradients(case)


@pytest.mark.parametrize("case", parameters("caffe_runs"))
def test_a_solver_takes_the_steps_of_caffe(case: Case) -> None:
    run_solver(case)
