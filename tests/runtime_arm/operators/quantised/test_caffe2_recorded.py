"""Caffe2's Int8 operators against recorded runs, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.caffe2_goldens import golden_cases, load_cases, run_case

TYPES = sorted({case["op"] for case in load_cases("int8")})


@pytest.mark.parametrize("engine", ["", "REFERENCE"])
@pytest.mark.parametrize("case", golden_cases(*TYPES, kind="int8"))
def test_behaves_as_caffe2(case: Any, engine: str) -> None:
    run_case(case, engine=engine)
