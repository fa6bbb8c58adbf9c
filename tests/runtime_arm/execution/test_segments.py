"""What runs behind an operator whose output shape depends on data: it inherits what is read there, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterator, List, Sequence

import numpy as np
import pytest
from hypothesis import given, settings

from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm
from runtime_arm.errors import FeedError
from runtime_arm.execution.executor import Executor, walk_segments
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning.merges import find as merging
from runtime_arm.planning.merges.kinds import least_time
from runtime_arm.registry.kernel import REFERENCE
from tests.support.random_nets import DATA_DEPENDENT, KINDS, MERGED, TILED, Kind, RandomNet, random_nets
from tests.support.tiles import tiles_everywhere

X = {"x": np.random.default_rng(5).standard_normal((1, 16, 28, 28)).astype(np.float32)}
SHAPES = {"expand": (96, 16, 1, 1), "depthwise": (96, 1, 3, 3), "project": (16, 96, 1, 1)}
BLOCK = (
    OperatorDef.of("ConvRelu", ["x", "expand"], ["e"], kernel=1),
    OperatorDef.of("ConvRelu", ["e", "depthwise"], ["f"], kernel=3, pad=1, group=96),
    OperatorDef.of("Conv", ["f", "project"], ["y"], kernel=1),
)


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU whose BLAS multiplies small matrices fast: there separable blocks are merged."""
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)


def block(*behind: OperatorDef) -> Executor:
    """A separable block, which is merged, and what follows."""
    weights = {name: np.full(shape, 1 / shape[1], np.float32) for name, shape in SHAPES.items()}
    return Executor(NetDef("block", (*BLOCK, *behind), ("x", *weights), ("z",)), weights)


def types(executor: Executor) -> List[str]:
    """The operators that run as a step, segment by segment."""
    return [step.op.type for root in executor.plans() for one in walk_segments(root) for step in one.steps]


def test_a_merged_block_in_front_of_a_border() -> None:
    executor = block(OperatorDef.of("NonZero", ["y"], ["z"], domain="onnx"))
    result = executor.run(X, ["z"])["z"]
    assert "SeparableBlock" in types(executor)
    np.testing.assert_array_equal(result, np.nonzero(executor.run(X, ["y"])["y"]))


def test_a_blob_inside_of_a_merged_block_that_is_fetched_behind_the_border() -> None:
    executor = block(OperatorDef.of("NonZero", ["y"], ["z"], domain="onnx"))
    kept = executor.run(X, ["z", "e"])
    np.testing.assert_allclose(kept["e"][0, 0], np.maximum(X["x"].mean(axis=1)[0], 0), atol=1e-5)
    with pytest.raises(FeedError, match="blob 'q' is not in the net; it has depthwise, e, expand, f, project, x, y, z"):
        executor.run(X, ["q"])


@pytest.mark.parametrize("reader", ["e", "f", "y", "x"])
def test_a_blob_that_is_read_on_both_sides_of_the_border(reader: str) -> None:
    executor = block(
        OperatorDef.of("NonZero", ["y"], ["places"], domain="onnx"),
        OperatorDef.of("Relu", [reader], ["z"]),
    )
    result = executor.run(X, ["z"])["z"]
    np.testing.assert_array_equal(result, np.maximum(executor.run(X, [reader])[reader], 0))


def executors(drawn: RandomNet) -> Iterator[Executor]:
    """The net as it is planned, and by the reference kernels."""
    yield Executor(drawn.net, drawn.weights)
    reference = tuple(op.replace(engine=REFERENCE) for op in drawn.net.op)
    yield Executor(drawn.net.replace(op=reference), drawn.weights)


def assert_right(drawn: RandomNet) -> None:
    """Two runs with other data between them give the same bits, and those of the reference kernels but for rounding."""
    names = drawn.net.external_output
    planned, reference = executors(drawn)
    runs = [planned.run(drawn.feed(seed), names) for seed in (0, 1, 0)]
    expected = reference.run(drawn.feed(), names)
    for name in names:
        np.testing.assert_array_equal(runs[0][name], runs[2][name])
        if expected[name].dtype.kind != "f":
            np.testing.assert_array_equal(runs[0][name], expected[name])
            continue
        assert_close(
            runs[0][name],
            expected[name],
            terms=9 * 24 * 12,
            amplification=256,
            magnitude=max(1.0, float(np.abs(expected[name]).max())),
        )


def assert_plan_is_sound(drawn: RandomNet) -> None:
    """The results are those of a run whose blobs share no memory, and free memory does not matter."""
    assert list(run_paranoid(drawn.pair(), drawn.feed()).outputs) == list(drawn.net.external_output)


BORDERS: Sequence[Kind] = [*DATA_DEPENDENT] * 3


@settings(max_examples=100)
@given(random_nets(kinds=[*KINDS, *BORDERS]))
def test_random_nets_with_borders(drawn: RandomNet) -> None:
    assert_right(drawn)
    assert_plan_is_sound(drawn)


@settings(max_examples=60)
@given(random_nets(kinds=[*TILED, *BORDERS]))
def test_random_nets_in_tiles_with_borders(drawn: RandomNet) -> None:
    with tiles_everywhere():
        assert_right(drawn)
        assert_plan_is_sound(drawn)


def test_random_nets_with_merges_in_front_of_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are merged here whether it is faster or not."""
    monkeypatch.setattr(merging, "time_together", lambda merge: least_time(merge.step) / 100)
    merged: Dict[str, int] = Counter()

    @settings(max_examples=120)
    @given(random_nets(8, [*MERGED, *BORDERS], sizes=(20, 30)))
    def check(drawn: RandomNet) -> None:
        assert_right(drawn)
        assert_plan_is_sound(drawn)
        executor = Executor(drawn.net, drawn.weights)
        executor.run(drawn.feed(), drawn.net.external_output)
        if any(segment.border is not None for segment in executor.plans()):
            merged.update({"SeparableBlock", "PooledConv"}.intersection(types(executor)))

    check()
    assert merged["SeparableBlock"] >= 3
    assert merged["PooledConv"] >= 3
