"""ReLU and Clip before an overlapping max pool move after it, with exactly the same results."""

from __future__ import annotations

from itertools import product
from typing import List

import numpy as np
import pytest

from optimize.passes.fusing.fuse_activation_into_pool import PASS
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.pool.caffe2 import pool_of
from runtime_arm.registry.specs import TensorSpec
from tests.optimize.kinds import pooled_activation
from tests.optimize.nets import applied, assert_keeps_numbers, assert_same_numbers, refusals

SHAPES = {"x": (2, 3, 9, 12)}
WEIGHTS = {"w": np.random.default_rng(2).standard_normal((3, 3, 1, 1)).astype(np.float32)}
HEAD = 'net "": x, w -> y\n '
POOL = "MaxPool(a) -> y  kernel=3  stride=2  pad=1"


@pytest.mark.parametrize(
    ("first", "before", "pooled", "limit"),
    [
        ("Relu(x) -> a", [], "x", 'activation="Relu"'),
        ("onnx.Relu(x) -> a", [], "x", 'activation="onnx.Relu"'),
        ("Clip(x) -> a  min=0.25  max=0.5", [], "x", 'activation="Clip"  min=0.25  max=0.5'),
        ("ConvRelu(x, w) -> a  kernel=1", ["Conv(x, w) -> a  kernel=1"], "a", 'activation="Relu"'),
        (
            'armnet.FusedConv(x, w) -> a  kernel=1  activation="Clip"  min=-0.5  max=0.5',
            ["Conv(x, w) -> a  kernel=1"],
            "a",
            'activation="Clip"  min=-0.5  max=0.5',
        ),
        (
            'armnet.FusedConv(x, w, "", x) -> a  kernel=1  activation="onnx.Relu"',
            ['armnet.FusedConv(x, w, "", x) -> a  kernel=1'],
            "a",
            'activation="onnx.Relu"',
        ),
    ],
)
def test_a_limit_is_applied_to_the_pooled_values(first: str, before: List[str], pooled: str, limit: str) -> None:
    outcome = applied(PASS, f"{HEAD}{first}\n {POOL}", WEIGHTS, SHAPES)
    assert outcome.text == [*before, f"armnet.FusedMaxPool({pooled}) -> y  kernel=3  stride=2  pad=1  {limit}"]
    image = np.random.default_rng(0).standard_normal(SHAPES["x"]).astype(np.float32)
    image[0, 0, 4, 4] = np.nan
    assert_same_numbers(outcome.before, outcome.after, {"x": image})


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (
            "Relu(x) -> a\n MaxPool(a) -> y  kernel=2  stride=2",
            "the windows do not overlap, or there are as many as pixels",
        ),
        (
            "Relu(x) -> a\n MaxPool(a) -> y  kernel=3  pad=1",
            "the windows do not overlap, or there are as many as pixels",
        ),
        (
            "Relu(x) -> a\n MaxPool(a) -> b  kernel=3  stride=2\n Copy(a) -> z\n Sum(b, b) -> y",
            "'a' is read by Copy(a) -> z as well",
        ),
        (
            "Conv(x, w) -> c  kernel=1\n "
            'armnet.FusedConv(c, w) -> a  kernel=1  activation="Sigmoid"\n MaxPool(a) -> y  kernel=3  stride=2',
            "it does not end with a limit",
        ),
        ("armnet.FusedConv(x, w) -> a  kernel=1\n MaxPool(a) -> y  kernel=3  stride=2", "it does not end with a limit"),
        (
            "Relu(x) -> a\n MaxPool(a) -> y  global_pooling=1",
            "the windows do not overlap, or there are as many as pixels",
        ),
    ],
)
def test_other_pools_stay(net: str, reason: str) -> None:
    assert refusals(PASS, HEAD + net, WEIGHTS, SHAPES) == [reason]


@pytest.mark.parametrize("legacy_pad", range(4))
def test_overlapping_windows_all_contain_a_pixel(legacy_pad: int) -> None:
    takes_pads = legacy_pad in (0, 3)
    for kernel, size in product(range(3, 6), range(1, 10)):
        for stride, pad in product(range(2, kernel), range(kernel if takes_pads else 1)):
            pads = {"pads": [pad, pad]} if takes_pads else {}
            op = OperatorDef.of("MaxPool", ["x"], ["y"], kernels=[kernel], strides=[stride], **pads)
            op = op.with_args(legacy_pad=legacy_pad)
            if size + 2 * pad >= kernel or legacy_pad == 2:
                assert pool_of(op, TensorSpec((1, 1, size), "float32")).window.counts().all(), (op, size)


def test_pools_with_indices_are_left_alone() -> None:
    net = "Relu(x) -> a\n MaxPoolWithIndex(a) -> y, i  kernel=3  stride=2"
    assert not applied(PASS, HEAD + net, WEIGHTS, SHAPES).report.steps


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [pooled_activation])
