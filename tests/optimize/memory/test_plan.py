"""The memory that a net needs at least, and the memory that the runtime gives it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from optimize.memory.plan import MemoryPlan, arena_nbytes, plan_net, weight
from runtime_arm.errors import OperatorError
from runtime_arm.netdef import NetDef
from runtime_arm.registry.specs import TensorSpec
from tests.support.random_nets import KINDS, PARTS, RandomNet, random_nets

UNIT = 1 << 12  # bytes of (1, 4, 16, 16)


def plan(*lines: str, outputs: str = "y") -> MemoryPlan:
    net = NetDef.from_text("\n".join([f'net "": x -> {outputs}', *lines]))
    return plan_net(net, {"x": TensorSpec((1, 4, 16, 16), np.float32)})


def test_a_chain_of_in_place_operators_needs_one_blob() -> None:
    assert plan("Relu(x) -> a", "Sigmoid(a) -> b", "Relu(b) -> y")[1:] == (UNIT, UNIT)


def test_a_chain_without_in_place_operators_needs_two_blobs() -> None:
    assert plan("Softmax(x) -> a", "Softmax(a) -> b", "Softmax(b) -> y")[1:] == (2 * UNIT, 2 * UNIT)


def test_a_shortcut_stays_live_until_it_is_added() -> None:
    needed = plan("Relu(x) -> a", "Softmax(a) -> b", "Softmax(b) -> c", "Add(a, c) -> y")
    assert needed[1:] == (3 * UNIT, 3 * UNIT)


def test_parts_and_wholes_are_counted_once() -> None:
    needed = plan("Sigmoid(x) -> a", "Relu(x) -> b", "Concat(a, b) -> c, _  axis=1", "Relu(c) -> y")
    lengths = 64  # the second output of Concat, aligned
    assert needed[1:] == (2 * UNIT + lengths, 2 * UNIT + lengths)
    assert plan("Relu(x) -> a", "Split(a) -> b, c  axis=1", outputs="b, c")[1:] == (UNIT, UNIT)


def test_a_part_may_lie_in_another_part_of_the_same_whole() -> None:
    """Concat(b, a) joins a and b, but a may also lie in b: together they need no more than b."""
    needed = plan(
        "Concat(x, x) -> a, _  axis=1",
        "Concat(a, a) -> b, _2  axis=1",
        "Softmax(b) -> c",
        "Concat(b, a) -> d, _3  axis=1",
        outputs="a, b",
    )
    assert needed[1:] == (8 * UNIT, 8 * UNIT)


def test_pieces_of_one_blob_may_lie_in_the_same_bytes() -> None:
    """b and c are pieces of a, and c lies in y: so b may lie in y, too."""
    lengths = 64  # the second output of Concat, aligned
    needed = plan(
        "Relu(x) -> a",
        "Split(a) -> b, d  axis=1",
        "Slice(a) -> c  starts=[0, 0, 0, 0]  ends=[-1, -1, -1, -1]",
        "Concat(c, c) -> y, _  axis=1",
        outputs="b, y",
    )
    assert needed[1:] == (2 * UNIT + lengths, 2 * UNIT + lengths)


def test_all_outputs_are_live_at_the_end() -> None:
    needed = plan("Relu(x) -> a", "Sigmoid(a) -> b", "Tanh(b) -> y", outputs="a, b, y")
    assert needed[1:] == (3 * UNIT, 3 * UNIT)


def test_constants_need_no_arena() -> None:
    net = NetDef.from_text('net "": x, w -> y\n Conv(x, w) -> a  kernel=3  pad=1\n Relu(a) -> y')
    specs = {"x": TensorSpec((1, 4, 16, 16), np.float32), "w": weight((4, 4, 3, 3))}
    needed = plan_net(net, specs)
    assert (needed.blobs, needed.least) == (2 * UNIT, 2 * UNIT)
    assert arena_nbytes(net, specs) == needed.arena > needed.blobs


def test_shapes_that_depend_on_data_are_refused_by_name() -> None:
    net = NetDef.from_text('net "": x -> y\n onnx.NonZero(x) -> y')
    with pytest.raises(OperatorError, match=r"NonZero\(x\) -> y: its output's shape depends on data"):
        plan_net(net, {"x": TensorSpec((4,), np.float32)})


@settings(max_examples=200)
@given(random_nets(kinds=PARTS) | random_nets(kinds=[*KINDS, *PARTS]))
def test_random_nets_never_get_less_than_they_need(drawn: RandomNet) -> None:
    specs = {"x": TensorSpec(drawn.shape, np.float32), **{n: TensorSpec.known(w) for n, w in drawn.weights.items()}}
    needed = plan_net(drawn.net, specs)
    assert 0 < needed.least <= needed.blobs <= needed.arena
