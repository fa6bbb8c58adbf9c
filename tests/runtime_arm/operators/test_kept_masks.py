"""ReLU and MaxPool that keep a mask or offsets: kernels, gradients, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from optimize.gradients import add_gradient_operators
from runtime_arm.engines.pool import phases
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef

RELU = OperatorDef.of("ReluWithMask", ["x"], ["y", "mask"], domain="armnet")
RELU_BACK = OperatorDef.of("ReluMaskGradient", ["mask", "dy"], ["dx"], domain="armnet")
POOLS = [
    {"kernel": 2, "stride": 2},
    {"kernel": 3, "stride": 2, "pad": 1},
    {"kernel": 3, "stride": 1},
    {"kernels": [2, 3], "strides": [1, 2], "pads": [0, 1, 1, 0]},
    {"global_pooling": 1},
    {"kernel": 2, "stride": 2, "order": "NHWC"},
    {"kernel": 2, "stride": 4},
    {"kernel": 5, "stride": 3, "pad": 2},
]


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1,), (5, 7), (3, 4, 40, 41), (64,)])
def test_a_relu_keeps_a_bit_an_element(shape: Any) -> None:
    x, dy = normal(*shape), normal(*shape, seed=1)
    assert assert_engines_match_reference(RELU, [x]) == ["NUMPY"]
    y, mask = run_kernel(RELU, [x])
    assert mask.nbytes == 4 * -(-x.size // 32)
    assert assert_engines_match_reference(RELU_BACK, [mask, dy]) == ["NUMPY"]
    np.testing.assert_array_equal(run_kernel(RELU_BACK, [mask, dy])[0], np.where(y > 0, dy, 0))


def pool(**arguments: Any) -> OperatorDef:
    return OperatorDef.of("MaxPoolWithOffsets", ["x"], ["y", "offsets"], domain="armnet", **arguments)


@pytest.mark.parametrize("arguments", POOLS)
def test_a_pool_keeps_a_byte_a_window(arguments: Any) -> None:
    x = normal(2, 6, 9, 3) if "order" in arguments else normal(2, 3, 6, 9)
    assert assert_engines_match_reference(pool(**arguments), [x]) == ["PHASES"]
    y, offsets = run_kernel(pool(**arguments), [x])
    (expected,) = run_kernel(OperatorDef.of("MaxPool", ["x"], ["y"], **arguments), [x])
    np.testing.assert_array_equal(y, expected)
    assert offsets.dtype == np.uint8
    dy, shape = normal(*y.shape, seed=1), np.array(x.shape, np.int64)
    back = OperatorDef.of("MaxPoolOffsetsGradient", ["offsets", "dy", "s"], ["dx"], domain="armnet", **arguments)
    assert assert_engines_match_reference(back, [offsets, dy, shape], terms=9, constants=[2]) == ["PHASES"]
    (dx,) = run_kernel(back, [offsets, dy, shape], constants=[2])
    plain = OperatorDef.of("MaxPoolGradient", ["x", "y", "dy"], ["dx"], **arguments)
    assert_close(dx, run_kernel(plain, [x, y, dy])[0], terms=9)  # there are no ties


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize("shape", [(3, 2, 13), (2, 5, 9, 8), (1, 2, 5, 6, 4)])
def test_offsets_of_ties_infinities_and_nans_are_those_of_the_reference(
    block: int, shape: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phases, "BLOCK_NBYTES", block)
    x = np.random.default_rng(0).choice(np.float32([0, 0, 1, -np.inf, -np.inf, -np.inf, np.nan]), shape)
    x.reshape(-1, shape[-1])[:4] = -np.inf
    sizes = len(shape) - 2
    op = pool(kernels=[3] * sizes, strides=[2] * sizes, pads=[1] * 2 * sizes)
    reference = run_kernel(op, [x], engine="REFERENCE")
    for found, expected in zip(run_kernel(op, [x], engine="PHASES"), reference):
        np.testing.assert_array_equal(found, expected)


def test_of_equal_pixels_the_first_gets_the_gradient() -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    net, gradients = add_gradient_operators(NetDef("n", (pool(kernel=2),)), {"y": "dy"})
    workspace = Workspace()
    workspace.feed("x", x)
    workspace.feed("dy", np.full((1, 1, 1, 1), 3, np.float32))
    workspace.run_net_once(net)
    assert workspace.fetch(str(gradients["x"])).reshape(-1).tolist() == [3, 0, 0, 0]


def test_a_window_of_more_than_256_pixels_is_refused() -> None:
    with pytest.raises(ArmnetError, match="256 pixels at most"):
        run_kernel(pool(kernel=17), [normal(1, 1, 20, 20)])


def test_what_is_kept_is_small() -> None:
    """Between the forward and the backward pass nothing but masks and offsets is kept."""
    kept = """
    net "n": x, dy -> dx
    Scale(x) -> a  scale=2.0
    armnet.ReluWithMask(a) -> b, mask
    armnet.MaxPoolWithOffsets(b) -> c, offsets  kernel=2  stride=2
    Sigmoid(c) -> d
    Shape(b) -> s
    Mul(d, dy) -> e
    armnet.MaxPoolOffsetsGradient(offsets, e, s) -> f  kernel=2  stride=2
    armnet.ReluMaskGradient(mask, f) -> dx
    """
    plain = """
    net "n": x, dy -> dx
    Scale(x) -> a  scale=2.0
    Relu(a) -> b
    MaxPool(b) -> c  kernel=2  stride=2
    Sigmoid(c) -> d
    Mul(d, dy) -> e
    MaxPoolGradient(b, c, e) -> f  kernel=2  stride=2
    ReluGradient(b, f) -> dx
    """
    feeds = {"x": normal(2, 8, 32, 32), "dy": normal(2, 8, 16, 16, seed=2)}
    results, sizes = [], []
    for text in (kept, plain):
        executor = Executor(NetDef.from_text(text), {})
        results.append(executor.run(feeds, ["dx"])["dx"])
        sizes.append(executor.plan(feeds, ["dx"]).liveness_peak_nbytes)
    np.testing.assert_array_equal(*results)
    assert sizes[0] < sizes[1]
