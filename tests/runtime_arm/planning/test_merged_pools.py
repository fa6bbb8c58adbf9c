"""A plan merges a convolution with the pool after it: when it does so, and what is visible from outside."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm import Predictor
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.cost import cost_of
from runtime_arm.planning.merges import find as merging
from runtime_arm.planning.plan import Segment

X = np.random.default_rng(1).standard_normal((2, 3, 75, 70)).astype(np.float32)
TOGETHER, APART = ["ConvRelu", "armnet.PooledConv", "ConvRelu"], ["ConvRelu", "ConvRelu", "MaxPool", "ConvRelu"]


def pair(
    outputs: Tuple[str, ...] = ("y",),
    convolution: str = "",
    pool: str = "",
    more: Tuple[OperatorDef, ...] = (),
    **pooling: Any,
) -> Pair:
    """x - a - b - p - y: 3x3 convolutions, except that p is a pool of b."""
    ops = (
        OperatorDef.of("ConvRelu", ["x", "a_w", "a_b"], ["a"], kernel=3, pad=1),
        OperatorDef.of("ConvRelu", ["a", "b_w", "b_b"], ["b"], kernel=3, pad=1, engine=convolution),
        OperatorDef.of("MaxPool", ["b"], ["p"], engine=pool, **{"kernel": 2, "stride": 2, **pooling}),
        OperatorDef.of("ConvRelu", ["p", "y_w", "y_b"], ["y"], kernel=3, pad=1),
        *more,
    )
    draw = np.random.default_rng(0)
    shapes: Dict[str, Tuple[int, ...]] = {"a_w": (32, 3, 3, 3), "b_w": (64, 32, 3, 3), "y_w": (48, 64, 3, 3)}
    shapes.update({f"{name[0]}_b": shape[:1] for name, shape in shapes.items()})
    weights = {
        name: (draw.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }
    init = NetDef(name="init", op=tuple(fill(*item) for item in weights.items()), external_output=tuple(weights))
    return Pair.from_nets(init, NetDef("net", ops, ("x", *weights), outputs))


def planned(net: Pair, threads: int = 1) -> Segment:
    with Predictor(net, threads=threads) as predictor:
        return predictor.plan({"x": X.shape})


def operators(net: Pair) -> List[str]:
    return [step.op.full_type for step in planned(net).steps if step.op.type != "ChangeLayout"]


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: once it has been called, plans merge nothing."""
    return lambda: monkeypatch.setattr(merging, "merges", lambda last, before: ())


def test_a_pool_runs_with_the_convolution_before_it() -> None:
    assert operators(pair()) == TOGETHER


def test_a_pool_with_an_activation_of_its_own_stays_apart() -> None:
    net = pair()
    pool = net.predict_net.op[2].replace(type="FusedMaxPool", domain="armnet")
    pool = pool.with_args(activation="Clip", min=0.5, max=1.0)
    ops = (*net.predict_net.op[:2], pool, net.predict_net.op[3])
    assert "armnet.FusedMaxPool" in operators(Pair.from_nets(net.init_net, net.predict_net.replace(op=ops)))


@pytest.mark.parametrize(
    "preferences",
    [
        {"convolution": "FFT"},
        {"convolution": "REFERENCE"},
        {"pool": "REFERENCE"},
        {"pool": "!NUMPY"},
        {"kernel": 3},
        {"pad": 1},
        {"outputs": ("b", "y")},
    ],
)
def test_engines_windows_and_outputs_that_prevent_the_merge(preferences: Dict[str, Any]) -> None:
    assert operators(pair(**preferences)) == APART


def test_a_blob_with_two_readers_prevents_the_merge() -> None:
    sigmoid = OperatorDef.of("Sigmoid", ["b"], ["z"])
    assert operators(pair(outputs=("y", "z"), more=(sigmoid,))) == [*APART, "Sigmoid"]


@pytest.mark.parametrize("engine", ["WINOGRAD:f4x4_3x3", "WINOGRAD:f2x2_3x3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_merged_step_computes_the_same_bits(engine: str, threads: int, apart: Any) -> None:
    with Predictor(pair(convolution=engine), threads=threads) as predictor:
        together = predictor.run({"x": X})["y"]
    apart()
    with Predictor(pair(convolution=engine), threads=threads) as predictor:
        np.testing.assert_array_equal(predictor.run({"x": X})["y"], together)


def test_workers_split_the_merged_step() -> None:
    segment = planned(pair(), threads=2)
    assert [step.workers for step in segment.steps if step.op.type == "PooledConv"] == [2]
    with Predictor(pair(convolution="REFERENCE"), threads=1) as slow, Predictor(pair(), threads=2) as fast:
        expected = slow.run({"x": X})["y"]
        assert_close(fast.run({"x": X})["y"], expected, terms=9 * 64, amplification=256)


def test_fetching_changes_no_result() -> None:
    names = ["a", "b", "p"]
    with Predictor(pair(), threads=1) as predictor:
        alone, kept = predictor.run({"x": X}), predictor.run({"x": X}, keep=names)
    np.testing.assert_array_equal(alone["y"], kept["y"])
    with Predictor(pair(convolution="REFERENCE"), threads=1) as predictor:
        expected = predictor.run({"x": X}, keep=names)
    for name, result in kept.items():
        assert_close(result, expected[name], terms=9 * 64, amplification=256, what=name)


def test_a_paranoid_run_succeeds() -> None:
    run_paranoid(pair(), {"x": X})


def test_the_blob_in_between_counts_as_work_but_takes_no_memory(apart: Any) -> None:
    segment = planned(pair())
    step = next(step for step in segment.steps if step.op.type == "PooledConv")
    assert cost_of(step.op, step.in_specs, step.out_specs).multiply_adds == 2 * 75 * 70 * 64 * 32 * 9
    assert {value.name for step in segment.steps for value in step.outputs} == {"a", "p", "y"}
    apart()
    assert segment.arena_nbytes < planned(pair()).arena_nbytes - 2 * 75 * 70 * 32 * 4
