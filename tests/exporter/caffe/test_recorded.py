"""Exported Caffe nets compute what the real Caffe computed; nets that it refused are refused."""

from __future__ import annotations

import pytest

from tests.support.caffe_goldens import Case, golden_cases, run_case


@pytest.mark.parametrize("case", golden_cases("ok", "error", "fatal"))
def test_behaves_as_caffe(case: Case) -> None:
    run_case(case)
