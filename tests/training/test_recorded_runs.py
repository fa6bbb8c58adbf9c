"""Recorded training runs of the real Caffe2: its train nets run here as they stand, with its losses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.training_goldens import parameters, run_training


@pytest.mark.parametrize("case", parameters("caffe2_runs"))
def test_losses_are_those_of_caffe2(case: Any) -> None:
    run_training(case)
