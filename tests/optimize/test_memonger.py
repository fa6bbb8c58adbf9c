"""Reusing names: never worse than Caffe2's planners, never a changed result, never a name that is taken."""

from __future__ import annotations

from pathlib import Path
from typing import List

import numpy as np
import pytest
from hypothesis import given, settings

from optimize.memonger import optimize_inference_fast, optimize_interference, rename_blobs, share_conv_buffers
from optimize.memory.name_reuse import Range, least_sizes, reuse_buffers
from optimize.memory.orders import live_ranges, orders
from optimize.memory.plan import plan_net
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from tests.support.memonger_goldens import NETS, activation_bytes, recorded
from tests.support.random_nets import DATA_DEPENDENT, KINDS, RandomNet, random_nets


@pytest.mark.parametrize("name", NETS)
def test_never_larger_than_the_best_of_caffe2s_planners(shared: Path, name: str) -> None:
    case = recorded(shared, name)
    net, sizes = case.net, case.sizes
    result = optimize_interference(net, sizes=sizes).check()
    assert activation_bytes(net, net, sizes) == case.before
    assert activation_bytes(result, net, sizes) <= case.best_of_caffe2
    assert activation_bytes(optimize_inference_fast(net).check(), net, sizes) < case.before


@pytest.mark.parametrize("name", NETS)
def test_the_arena_is_as_small_as_possible(shared: Path, name: str) -> None:
    """Nor does it exceed the peak of live bytes if no blobs share memory, although that figure excludes the input."""
    case = recorded(shared, name)
    plan = plan_net(case.net, case.specs)
    assert plan.least == plan.blobs <= case.live


@pytest.mark.parametrize("name", ["squeezenet", "resnet50@noinplace", "densenet121", "unet"])
def test_reordering_never_hurts(shared: Path, name: str) -> None:
    _, net, _, sizes, *_ = recorded(shared, name)
    results = [optimize_interference(net, sizes=sizes, reorder=reorder).check() for reorder in (False, True)]
    kept, moved = (activation_bytes(result, net, sizes) for result in results)
    assert moved <= kept


def test_reordering_finishes_one_branch_before_the_next() -> None:
    net = NetDef.from_text("""
        net "wide": x -> y
        Relu(x) -> a0  name="0"
        Sigmoid(x) -> b0  name="1"
        Tanh(x) -> c0  name="2"
        AveragePool(a0) -> a1  name="3"
        AveragePool(b0) -> b1  name="4"
        AveragePool(c0) -> c1  name="5"
        Sum(a1, b1, c1) -> y  name="6"
    """)
    sizes = {"a0": 100, "b0": 100, "c0": 100, "a1": 1, "b1": 1, "c1": 1, "y": 1}
    kept, moved = (optimize_interference(net, sizes=sizes, reorder=reorder) for reorder in (False, True))
    assert activation_bytes(kept, net, sizes) == 302
    assert activation_bytes(moved, net, sizes) == 104
    assert [op.name for op in moved.op] == ["0", "3", "1", "4", "2", "5", "6"]


@settings(max_examples=150)
@given(random_nets(kinds=[*KINDS, *DATA_DEPENDENT]))
def test_results_are_bit_equal(drawn: RandomNet) -> None:
    net = drawn.net
    written = list(dict.fromkeys(name for op in net.op for name in op.output))
    blobs = Executor(net, drawn.weights).run(drawn.feed(), written)
    sizes = {name: int(array.nbytes) for name, array in blobs.items()}
    static = [name for name in sizes if name.endswith("0")]
    results = [
        optimize_interference(net, sizes=sizes),
        optimize_interference(net, sizes=sizes, reorder=True),
        optimize_interference(net),
        optimize_interference(net, static, sizes),
        optimize_inference_fast(net),
        optimize_inference_fast(net, static),
        rename_blobs(net),
        *orders(net, sizes),
        share_conv_buffers(rename_blobs(optimize_interference(net, sizes=sizes))),
    ]
    for result in results:
        result.check()
        outputs = Executor(result, drawn.weights).run(drawn.feed(), net.external_output)
        for name in net.external_output:
            assert outputs[name].tobytes() == blobs[name].tobytes(), result.to_text()


@settings(max_examples=60)
@given(random_nets())
def test_no_operator_overwrites_an_input_that_it_did_not_overwrite_before(drawn: RandomNet) -> None:
    for result in (optimize_interference(drawn.net), optimize_inference_fast(drawn.net)):
        for before, after in zip(drawn.net.op, result.op):
            assert [name in before.input for name in before.output] == [name in after.input for name in after.output]


CHAIN = """
    net "chain": x -> y
    Relu(x) -> a
    Sigmoid(a) -> b
    Relu(b) -> c
    Sigmoid(c) -> d
    Relu(d) -> y
"""


def operators(net: NetDef) -> List[str]:
    return net.replace(name="", external_input=(), external_output=()).to_text().splitlines()


def test_chains_take_the_name_of_their_last_blob() -> None:
    assert operators(optimize_interference(NetDef.from_text(CHAIN))) == [
        "Relu(x) -> c",
        "Sigmoid(c) -> d",
        "Relu(d) -> c",
        "Sigmoid(c) -> d",
        "Relu(d) -> y",
    ]


def test_the_fast_planner_names_shared_blobs() -> None:
    assert operators(optimize_inference_fast(NetDef.from_text(CHAIN))) == [
        "Relu(x) -> __m0_shared",
        "Sigmoid(__m0_shared) -> __m1_shared",
        "Relu(__m1_shared) -> __m0_shared",
        "Sigmoid(__m0_shared) -> __m1_shared",
        "Relu(__m1_shared) -> y",
    ]


def test_static_blobs_keep_their_content() -> None:
    result = optimize_interference(NetDef.from_text(CHAIN), ["a"])
    assert operators(result)[0] == "Relu(x) -> a"
    assert sum("a" in op.output for op in result.op) == 1


def test_blobs_without_a_size_are_not_shared() -> None:
    result = optimize_interference(NetDef.from_text(CHAIN), sizes={"b": 4, "d": 4})
    assert [op.output[0] for op in result.op] == ["a", "d", "c", "d", "y"]


@pytest.mark.parametrize("planner", [optimize_interference, optimize_inference_fast, rename_blobs])
def test_external_blobs_and_blobs_of_sub_nets_are_left_alone(planner: object) -> None:
    net = NetDef.from_text("""
        net "outer": x, z, c -> y, k
        Relu(z) -> t
        Relu(x) -> a
        Sigmoid(a) -> k
        Relu(k) -> b
        If(c, a) -> e  then_net={
          Sigmoid(b) -> e
        }
        Sigmoid(e) -> f
        Relu(f) -> y
    """)
    result = planner(net)  # type: ignore[operator]
    names = {name for op in result.op for name in (*op.input, *op.output)}
    assert names >= {"x", "z", "c", "y", "k", "a", "b", "e"}
    assert [op.output[0] for op in result.op if op.output[0] in ("x", "z", "c")] == []
    assert result.op[4] == net.op[4]


def test_names_are_short_and_unused() -> None:
    net = NetDef.from_text('net "": b0 -> y\n Relu(b0) -> long_name\n Relu(long_name) -> b1\n Relu(b1) -> y')
    assert operators(rename_blobs(net)) == ["Relu(b0) -> b1", "Relu(b1) -> b2", "Relu(b2) -> y"]


def test_convolutions_share_their_buffer_in_sub_nets_too() -> None:
    net = NetDef.from_text("""
        net "": x, w, c -> y
        Conv(x, w) -> a  kernel=3
        onnx.Conv(x, w) -> b
        If(c) -> y  then_net={
          ConvTranspose(a, w) -> y  kernel=3
        }
    """)
    result = share_conv_buffers(net)
    inner = result.op[2].get_net("then_net").op[0]
    assert [op.has("shared_buffer") for op in (*result.op, inner)] == [True, False, False, True]
    assert inner.get_int("shared_buffer") == 1


def test_a_search_reaches_the_lower_bound_where_greedy_does_not() -> None:
    ranges = {"a": Range(0, 2), "b": Range(1, 1), "c": Range(2, 4), "d": Range(3, 5), "e": Range(5, 6)}
    sizes = {"a": 4, "b": 8, "c": 8, "d": 4, "e": 8}
    chains = reuse_buffers(ranges, sizes)
    assert sum(max(sizes[name] for name in chain) for chain in chains) == sum(least_sizes(ranges, sizes)) == 12


def test_no_buffer_holds_two_live_blobs() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        starts, lengths = random.integers(0, 40, 30), random.integers(0, 12, 30)
        ranges = {f"b{i}": Range(int(s), int(s + n)) for i, (s, n) in enumerate(zip(starts, lengths))}
        sizes = {name: int(size) for name, size in zip(ranges, random.integers(1, 9, 30))}
        chains = reuse_buffers(ranges, sizes)
        assert sorted(name for chain in chains for name in chain) == sorted(ranges)
        for chain in chains:
            assert all(ranges[a].last < ranges[b].first for a, b in zip(chain, chain[1:]))
        total = sum(max(sizes[name] for name in chain) for chain in chains)
        assert sum(least_sizes(ranges, sizes)) <= total <= sum(sizes.values())


def test_live_ranges_reach_from_the_first_write_to_the_last_use() -> None:
    net = NetDef.from_text('net "": x -> y\n Relu(x) -> a\n Relu(a) -> a\n Relu(x) -> y, m\n Add(a, y) -> y')
    assert live_ranges(net) == {"a": Range(0, 3), "y": Range(2, 3), "m": Range(2, 2)}
