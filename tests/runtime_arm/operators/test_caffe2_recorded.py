"""Every recorded run of Caffe2's operators, float and integer: armnet computes and refuses what Caffe2 did."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.caffe2_goldens import golden_cases, run_case

CASES = [*golden_cases("ops"), *golden_cases("int8")]


@pytest.mark.parametrize("case", CASES)
def test_behaves_as_caffe2(case: Any) -> None:
    run_case(case)


@pytest.mark.parametrize("case", [*golden_cases("ops", "ok"), *golden_cases("int8", "ok")])
def test_the_reference_kernels_behave_as_caffe2(case: Any) -> None:
    run_case(case, engine="REFERENCE")
