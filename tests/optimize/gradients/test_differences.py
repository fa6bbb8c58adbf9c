"""Every gradient against finite differences, every fast gradient kernel against the reference, on random shapes."""

from __future__ import annotations

import pytest

from runtime_arm.registry.families import FAMILIES
from runtime_arm.registry.gradients import differentiable
from tests.optimize.gradients import more_cases
from tests.optimize.gradients.cases import CASES
from tests.optimize.gradients.checks import Draw, check
from tests.optimize.gradients.onnx_cases import ONNX_CASES

DRAWN = {cases: types for types, cases in CASES.items()}
DRAWN.update((cases, f"onnx.{types}") for types, cases in ONNX_CASES.items())
FILLS = {type for family in ("caffe2", "random") for type in FAMILIES[""][f"operators.fills.{family}"].split()}
# Gradients that are the same whatever the input is, or that other tests hold against recorded runs alone.
ELSEWHERE = {
    "RecurrentNetwork",
    "Range",
    "Size",
    "OneHot",
    "BatchOneHot",
    "SegmentOneHot",
    "LambdaRankNdcg",
    "ZeroGradient",
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cases", [pytest.param(cases, id=type) for cases, type in DRAWN.items()])
def test_gradients_are_the_quotients_of_differences(cases: object, seed: int) -> None:
    for case in cases(Draw(seed)):  # type: ignore[operator]
        check(case, seed)


def test_no_type_is_left_out() -> None:
    assert more_cases.__all__
    types = {domain: {type for own, type in differentiable() if own == domain} for domain in ("", "onnx")}
    assert types[""] - set(CASES) - FILLS - ELSEWHERE == set()
    assert types["onnx"] - set(ONNX_CASES) - {"OneHot"} == set()
