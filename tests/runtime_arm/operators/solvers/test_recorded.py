"""Every recorded run of Caffe2's optimisers and learning-rate policies, by all kernels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.training_goldens import parameters, run_optimiser

CASES = parameters("caffe2_optimisers")


@pytest.mark.parametrize("engine", ["", "REFERENCE"])
@pytest.mark.parametrize("case", CASES)
def test_behaves_as_caffe2(case: Any, engine: str) -> None:
    run_optimiser(case, engine)
