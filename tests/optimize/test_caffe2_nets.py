"""Optimised nets that Caffe2's mobile exporter wrote."""

from __future__ import annotations

from typing import Any

import pytest

from optimize import optimize
from tests.support.caffe2_nets import check_net, golden_nets, pair_of


@pytest.mark.parametrize("case", golden_nets())
def test_computes_the_same_when_optimised(case: Any) -> None:
    check_net(case, optimize(pair_of(case)))


@pytest.mark.parametrize("case", golden_nets())
def test_computes_the_same_for_the_shape_it_is_optimised_for(case: Any) -> None:
    pair = pair_of(case)
    check_net(case, optimize(pair, shapes={pair.inputs[0].name: case["data"].shape}))
