"""Fused operators are taken apart before gradients are made, and the gradients are right."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from optimize.gradients import add_gradient_operators
from optimize.layers.unfuse import unfused
from runtime_arm.netdef import NetDef, OperatorDef
from tests.optimize.gradients.checks import check_net
from tests.support.operands import random


def fused(type: str, inputs: List[str], **arguments: Any) -> NetDef:
    return NetDef(op=(OperatorDef.of(type, inputs, ["Y"], domain="armnet", **arguments),))


FEEDS: Dict[str, Any] = {
    "X": random((2, 3, 4, 4), dtype=np.float64),
    "w": random((5, 3, 3, 3), 1, dtype=np.float64),
    "b": random((5,), 2, dtype=np.float64),
    "A": random((2, 5, 4, 4), 3, dtype=np.float64),
    "slope": random((5,), 4, offset=2, dtype=np.float64),
    "f": random((6, 48), 5, dtype=np.float64),
    "c": random((6,), 6, dtype=np.float64),
}
CASES = [
    (fused("FusedConv", ["X", "w", "b", "A"], kernel=3, pad=1, activation="Relu"), "Conv Add Relu"),
    (fused("FusedConv", ["X", "w", "", "A"], kernel=3, pad=1), "Conv Add"),
    (fused("FusedConv", ["X", "w", "b"], kernel=3, pad=1, activation="LeakyRelu", alpha=0.2), "Conv LeakyRelu"),
    (fused("FusedConv", ["X", "w", "b", "", "slope"], kernel=3, pad=1, activation="PRelu"), "Conv PRelu"),
    (fused("FusedConv", ["X", "w", "", "", "slope"], kernel=3, pad=1, activation="PRelu"), "Conv PRelu"),
    (fused("FusedFC", ["X", "f", "c"], activation="Swish"), "FC Swish"),
    (fused("FusedMaxPool", ["X"], kernel=2, activation="Relu"), "MaxPool Relu"),
    (NetDef(op=(OperatorDef.of("ConvRelu", ["X", "w", "b"], ["Y"], kernel=3),)), "Conv Relu"),
]


@pytest.mark.parametrize(("net", "parts"), CASES)
def test_every_part_is_an_operator_again(net: NetDef, parts: str) -> None:
    apart = unfused(net)
    assert [op.type for op in apart.op] == parts.split()
    assert apart.op[-1].output == ("Y",)
    feeds = {name: FEEDS[name] for name in net.op[0].input if name}
    made, _ = add_gradient_operators(net, {"Y": "dY"})
    assert made.op[: len(apart.op)] == apart.op
    check_net(net, feeds, ["Y"])


def test_other_nets_stay_as_they_are() -> None:
    net = NetDef.from_text("Conv(X, w) -> Y  kernel=3\nRelu(Y) -> Y")
    assert unfused(net) is net


def test_no_name_is_taken_twice() -> None:
    net = NetDef.from_text("Sin(X) -> Y_sum\nConvRelu(Y_sum, w) -> Y  kernel=3")
    assert [op.output for op in unfused(net).op] == [("Y_sum",), ("Y_sum_",), ("Y",)]
