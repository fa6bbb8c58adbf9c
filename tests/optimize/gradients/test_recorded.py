"""Every recorded gradient of Caffe2: the same operators, the same values, the same refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.optimize.gradients.recorded import run_case
from tests.support.training_goldens import parameters


@pytest.mark.parametrize("case", parameters("caffe2_gradients"))
def test_gradients_are_as_recorded(case: Any) -> None:
    run_case(case)
