"""Nets from Caffe2's mobile exporter run unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.pair import read_net
from runtime_arm.registry.schema import find
from tests.support.caffe2_nets import check_net, golden_nets, pair_of


@pytest.mark.parametrize("case", golden_nets())
def test_runs_unchanged(case: Any) -> None:
    check_net(case, pair_of(case))


def all_operators(net: NetDef) -> Iterator[OperatorDef]:
    for op in net.op:
        yield op
        for inner in op.subnets():
            yield from all_operators(inner)


def test_every_operator_of_real_mobile_nets_is_known(shared: Path) -> None:
    paths = sorted((shared / "models" / "caffe2").glob("**/*.pb*"))
    unknown = {(path.name, op.full_type) for path in paths for op in all_operators(read_net(path)) if find(op) is None}
    assert len(paths) >= 6
    assert unknown == set()
