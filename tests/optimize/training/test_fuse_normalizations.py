"""Fusing normalisations in forward nets and in whole train nets."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize.gradients import add_gradient_operators
from optimize.training import fuse_normalizations
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef
from runtime_arm.registry.specs import TensorSpec
from tests.support.training_goldens import LOSS, training_cases

BN = "SpatialBN(x, s, b, m, v) -> n, m, v, sm, si  is_test=0  momentum=0.8"
RELU = ["SpatialBNRelu(x, s, b, m, v) -> y, m, v, sm, si, y_mask  is_test=0  momentum=0.8"]
ADD_RELU = ["SpatialBNAddRelu(x, s, b, m, v, r) -> y, m, v, sm, si, y_mask  is_test=0  momentum=0.8"]
SHAPES = [{name: TensorSpec((4, 3, 5), np.float32) for name in "nr"}]


def net(*lines: str, outputs: str = "y") -> NetDef:
    return NetDef.from_text(f'net "n": x, s, b, m, v, r -> {outputs}\n' + "\n".join(lines))


def lines_of(net: NetDef) -> List[str]:
    return net.to_text().strip().split("\n")[1:]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (["Relu(n) -> y"], RELU),
        (["Sum(n, r) -> a", "Relu(a) -> y"], ADD_RELU),
        (["Add(r, n) -> a", "Relu(a) -> y"], ADD_RELU),
        (
            ["Sigmoid(r) -> q", "Relu(n) -> n", "Scale(n) -> y"],
            ["Sigmoid(r) -> q", RELU[0].replace("y", "n"), "Scale(n) -> y"],
        ),
    ],
)
def test_chains_become_one_operator(tail: List[str], expected: List[str]) -> None:
    fused = fuse_normalizations(net(BN, *tail), SHAPES)
    assert lines_of(fused) == expected
    assert fuse_normalizations(fused, SHAPES) == fused


@pytest.mark.parametrize(
    ("lines", "outputs"),
    [
        ([BN, "Relu(n) -> y"], "y, n"),
        ([BN, "Relu(n) -> y", "Sigmoid(n) -> z"], "y, z"),
        ([BN.replace("is_test=0", "is_test=1").replace(", m, v, sm, si  ", "  "), "Relu(n) -> y"], "y"),
        ([BN, "Scale(x) -> x  scale=2.0", "Relu(n) -> y"], "y, x"),
        ([BN, "Scale(sm) -> z  scale=2.0", "Relu(n) -> y"], "y, z"),
        ([BN, "Sum(n, n) -> a", "Relu(a) -> y"], "y"),
        ([BN, "Sum(n, r, x) -> a", "Relu(a) -> y"], "y"),
        ([BN, "Sum(n, r) -> a", "Scale(r) -> r  scale=2.0", "Relu(a) -> y"], "y, r"),
        ([BN, "Sigmoid(n) -> y"], "y"),
    ],
)
def test_what_something_else_looks_into_stays(lines: List[str], outputs: str) -> None:
    given = net(*lines, outputs=outputs)
    assert fuse_normalizations(given, SHAPES) == given


def test_an_addition_that_may_broadcast_stays() -> None:
    given = net(BN, "Add(n, r) -> a", "Relu(a) -> y")
    other = [{"n": TensorSpec((4, 3, 5), np.float32), "r": TensorSpec((1, 3, 1), np.float32)}]
    assert fuse_normalizations(given) == given
    assert fuse_normalizations(given, SHAPES + other) == given


def run(train: NetDef, names: Any) -> Dict[str, Any]:
    random = np.random.default_rng(0)
    workspace = Workspace()
    for name in ("x", "r", "dy"):
        workspace.feed(name, random.standard_normal((4, 3, 5)).astype(np.float32))
    for name in "sbmv":
        workspace.feed(name, random.random(3).astype(np.float32) + 0.5)
    workspace.run_net_once(train)
    return {name: workspace.fetch(name) for name in names}


@pytest.mark.parametrize(
    "tail",
    [
        ["Relu(n) -> y"],
        ["Relu(n) -> n", "Scale(n) -> y  scale=3.0"],
        ["Sum(n, r) -> a", "Relu(a) -> y"],
        ["Sum(r, n) -> r", "Relu(r) -> y"],
    ],
)
def test_a_whole_train_net_computes_the_same(tail: List[str]) -> None:
    plain, gradients = add_gradient_operators(net(BN, *tail, outputs="y, m, v"), {"y": "dy"})
    plain = plain.replace(external_output=())
    wanted = {"y", "m", "v", *(str(gradients[name]) for name in ("x", "s", "b"))}
    wanted |= {str(gradients["r"])} if "r" in gradients else set()
    fused = fuse_normalizations(plain, keep=wanted)
    types = [op.type for op in fused.op]
    kind = "SpatialBNAddRelu" if any("Sum" in line for line in tail) else "SpatialBNRelu"
    assert types.count(kind) == types.count(f"{kind}Gradient") == 1
    assert not {"SpatialBN", "SpatialBNGradient", "Relu", "ReluGradient"} & set(types)
    before, after = run(plain, wanted), run(fused, wanted)
    for name in wanted:
        assert_close(after[name], before[name], terms=4 * 5, what=name)


@pytest.mark.parametrize("name", ["resnet_nesterov", "resnet_sgd_fixed"])
def test_recorded_train_nets_learn_the_same_when_fused(name: str) -> None:
    case = next((case for case in training_cases("caffe2_runs") if case["id"] == name), None)
    if case is None:
        pytest.skip("no recorded runs in ../shared")
    train = NetDef.from_bytes(case["nets"]["train_net"])
    fused = fuse_normalizations(train, keep=[case["loss_blob"], *case["params"], *case["state"]])
    assert sum(op.type == "SpatialBNRelu" for op in fused.op) >= 2
    workspace = Workspace()
    workspace.run_net_once(case["nets"]["init_values_net"])
    for at, rows in enumerate(case["batches"][:20]):
        workspace.feed("data", case["data"]["x_train"][rows])
        workspace.feed("label", case["data"]["y_train"][rows])
        workspace.run_net_once(fused)
        assert abs(float(workspace.fetch(case["loss_blob"])) - case["loss"][at]) <= LOSS
