"""Masks and offsets instead of activations."""

from __future__ import annotations

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize.gradients import add_gradient_operators
from optimize.training import keep_masks
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef

NET = """
net "n": x -> y
Scale(x) -> a  scale=2.0
Relu(a) -> r
MaxPool(r) -> p  kernel=2  stride=2
MaxPool(r) -> q  kernel=3  stride=1  pad=1
Sigmoid(p) -> y
"""


def test_pools_keep_offsets_and_the_relu_before_them_a_mask() -> None:
    kept = keep_masks(NetDef.from_text(NET))
    assert kept.to_text().strip().split("\n")[1:] == [
        "Scale(x) -> a  scale=2.0",
        "armnet.ReluWithMask(a) -> r, r_mask",
        "armnet.MaxPoolWithOffsets(r) -> p, p_offsets  kernel=2  stride=2",
        "armnet.MaxPoolWithOffsets(r) -> q, q_offsets  kernel=3  stride=1  pad=1",
        "Sigmoid(p) -> y",
    ]
    assert keep_masks(kept) == kept


@pytest.mark.parametrize(
    "text",
    [
        'net "n": x -> y\nMaxPool(x) -> y  global_pooling=1',
        'net "n": x -> y\nMaxPool(x) -> y  kernel=17',
        'net "n": x -> y\nRelu(x) -> y',
        'net "n": x -> y\nRelu(x) -> r\nSigmoid(r) -> y',
        'net "n": x, y, dy -> d\nMaxPoolGradient(x, y, dy) -> d  is_gradient_op=1  kernel=2\nMaxPool(x) -> z  kernel=2',
    ],
)
def test_others_stay(text: str) -> None:
    net = NetDef.from_text(text)
    assert keep_masks(net) == net


def test_a_relu_that_something_else_reads_stays() -> None:
    net = NetDef.from_text('net "n": x -> y, z\nRelu(x) -> r\nMaxPool(r) -> y  kernel=2\nSigmoid(r) -> z')
    assert [op.type for op in keep_masks(net).op] == ["Relu", "MaxPoolWithOffsets", "Sigmoid"]
    net = NetDef.from_text('net "n": x -> y, r\nRelu(x) -> r\nMaxPool(r) -> y  kernel=2')
    assert [op.type for op in keep_masks(net).op] == ["Relu", "MaxPoolWithOffsets"]


def test_gradients_are_the_same() -> None:
    found = []
    for net in (NetDef.from_text(NET), keep_masks(NetDef.from_text(NET))):
        train, gradients = add_gradient_operators(net, {"y": "dy", "q": "dq"})
        random = np.random.default_rng(0)
        workspace = Workspace()
        for name, shape in (("x", (2, 3, 6, 6)), ("dy", (2, 3, 3, 3)), ("dq", (2, 3, 6, 6))):
            workspace.feed(name, random.standard_normal(shape).astype(np.float32) + (3 if name == "x" else 0))
        workspace.run_net_once(train.replace(external_output=()))
        found.append(workspace.fetch(str(gradients["x"])))
    assert_close(*found, terms=2)
