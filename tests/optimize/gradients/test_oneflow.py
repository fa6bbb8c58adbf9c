"""Every recorded batch normalisation of OneFlow, both ways: BN, BN + ReLU, BN + addition + ReLU."""

from __future__ import annotations

from typing import Any, List

import pytest

from tests.support.caffe2_goldens import goldens_module
from tests.support.paths import GOLDENS
from tests.support.training_goldens import parameters, run_oneflow


def inference_cases() -> List[Any]:
    if not GOLDENS.is_dir():
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"no recorded runs in {GOLDENS}"))]
    return [pytest.param(case, id=case["id"]) for case in goldens_module().oneflow_cases()]


@pytest.mark.parametrize("case", [*inference_cases(), *parameters("oneflow_training")])
def test_normalises_and_learns_as_oneflow(case: Any) -> None:
    run_oneflow(case)
