"""Which blob lies in the memory of which other; each test is a sentence."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from runtime_arm.planning.arena import liveness_peak
from runtime_arm.planning.memory_sharing import Sharing, _offset_within, plan_memory_again
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.steps import Value
from runtime_arm.registry.specs import TensorSpec

WIDE = (1, 4, 16, 16)  # 4 KB


def planned(*lines: str, shape: Sequence[int] = WIDE, fetches: str = "y") -> Segment:
    """The segment of a net over x, which has run once; its results are those without shared memory."""
    net = NetDef.from_text("\n".join([f'net "test": x, w -> {fetches}', *lines]))
    constants = {"w": np.ones((1, 4, 16, 16), np.float32)}
    feed = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    names = [name.strip() for name in fetches.split(",")]
    executor = Executor(net, constants)
    results = executor.run(feed, names)
    expected = reference(net, {**constants, **feed})
    for name in names:
        np.testing.assert_array_equal(results[name], expected[name])
    return executor.plan(feed, names)


def reference(net: NetDef, blobs: Dict[str, Any]) -> Dict[str, Any]:
    """The blobs, computed one operator after the other, each in its own memory."""
    for op in net.op:
        outputs = Executor(NetDef("one", (op,), tuple(op.input), tuple(op.output)), {}).run(
            {name: blobs[name] for name in op.input if name}, op.output
        )
        blobs = {**blobs, **outputs}
    return blobs


def types(segment: Segment) -> List[str]:
    return [step.op.type for step in segment.running]


def share(segment: Segment, *pairs: Tuple[str, str]) -> List[bool]:
    return [np.shares_memory(segment.env[a].array, segment.env[b].array) for a, b in pairs]


def test_parts_are_written_directly_into_the_joined_blob() -> None:
    segment = planned("Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> c, _  axis=1", "Exp(c) -> y")
    assert types(segment) == ["Relu", "Sigmoid", "Exp"]
    assert share(segment, ("a", "c"), ("b", "c"), ("a", "b")) == [True, True, False]


def test_wholes_of_wholes_lie_in_one_memory() -> None:
    segment = planned(
        "Relu(x) -> a",
        "Sigmoid(x) -> b",
        "Concat(a, b) -> c, _1  axis=1",
        "Tanh(x) -> d",
        "Concat(c, d) -> e, _2  axis=1",
        "Softsign(e) -> y",
        fetches="y, e",
    )
    assert "Concat" not in types(segment)
    assert share(segment, ("a", "e"), ("d", "e"), ("c", "e")) == [True, True, True]


def test_with_a_larger_batch_parts_are_not_contiguous_and_are_copied() -> None:
    lines = ["Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> y, _  axis=1"]
    assert "Concat" in types(planned(*lines, shape=(2, 4, 16, 16)))
    along_the_batch = planned(*lines[:2], "Concat(a, b) -> y, _  axis=0", shape=(2, 4, 16, 16))
    assert "Concat" not in types(along_the_batch)


def test_stacked_blobs_are_parts_too() -> None:
    segment = planned("Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> y, _  axis=0  add_axis=1")
    assert "Concat" not in types(segment)


def test_a_whole_that_grows_is_not_copied() -> None:
    """As in dense blocks: a joined blob is joined again with another part."""
    lines = ["Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> c, _1  axis=1", "Exp(c) -> d"]
    segment = planned(*lines, "Concat(a, b, d) -> e, _2  axis=1", "Softsign(e) -> y")
    assert types(segment) == ["Relu", "Sigmoid", "Exp", "Softsign"]
    assert share(segment, ("a", "e"), ("b", "e"), ("c", "e"), ("d", "e")) == [True, True, True, True]


def test_parts_in_another_order_beside_others_or_overwritten_are_copied() -> None:
    lines = ["Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> c, _1  axis=1", "Exp(c) -> d"]
    for line in ("Concat(b, a, d) -> e, _2  axis=1", "Concat(a, d) -> e, _2  axis=1"):
        assert types(planned(*lines, line, "Add(c, c) -> y", fetches="y, e")).count("Concat") == 1
    late = planned(*lines, "Relu(a) -> f", "Concat(a, b, d) -> e, _2  axis=1", "Softsign(e) -> y", fetches="y, f")
    assert share(late, ("f", "a")) == [False]


def test_a_blob_joined_with_itself_a_constant_or_a_view_of_more_is_copied() -> None:
    for line in ("Concat(a, a) -> y, _  axis=1", "Concat(a, w) -> y, _  axis=1"):
        assert "Concat" in types(planned("Relu(x) -> a", line))


def test_a_part_that_is_overwritten_later_is_not_put_into_a_live_whole() -> None:
    segment = planned(
        "Relu(x) -> a",
        "Sigmoid(x) -> b",
        "Concat(a, b) -> c, _  axis=1",
        "Relu(a) -> d",
        "Exp(c) -> e",
        "Split(e) -> f, g  axis=1",
        "Sum(d, f, g) -> y",
    )
    assert "Concat" in types(segment) or not share(segment, ("c", "d"))[0]


def test_a_whole_is_not_overwritten_while_a_part_is_still_read() -> None:
    segment = planned(
        "Relu(x) -> a",
        "Sigmoid(x) -> b",
        "Concat(a, b) -> c, _  axis=1",
        "Relu(c) -> d",
        "Split(d) -> e, f  axis=1",
        "Sum(a, e, f) -> y",
    )
    assert share(segment, ("a", "d")) == [False]


def test_parts_of_a_split_blob_stay_in_place() -> None:
    segment = planned("Relu(x) -> a", "Split(a) -> b, c  axis=1", "Exp(b) -> d", "Sigmoid(c) -> e", "Add(d, e) -> y")
    assert "Split" not in types(segment)
    assert share(segment, ("b", "a"), ("c", "a")) == [True, True]


SLICES = st.builds(slice, *[st.one_of(st.none(), st.integers(-5, 5))] * 2, st.sampled_from([None, 1, 2, -1]))


@given(st.lists(st.tuples(st.integers(0, 4), SLICES), min_size=1, max_size=4), st.integers(0, 4))
def test_a_part_lies_where_numpy_says(axes: List[Tuple[int, slice]], named: int) -> None:
    whole = np.zeros([size for size, _ in axes], np.float32)
    index = tuple(part for _, part in axes[:named])
    piece = whole[index]
    values = [Value(name, TensorSpec(array.shape, array.dtype), 0) for name, array in (("x", whole), ("y", piece))]
    place = piece.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    there = piece.size > 0 and piece.flags.c_contiguous
    assert _offset_within(values[0], values[1], index) == (place if there else None)


def test_a_place_takes_no_memory() -> None:
    whole, part = (Value("x", TensorSpec((1 << count, 1 << 40), np.float32), 0) for count in (5, 4))
    assert _offset_within(whole, part, (slice(16, None),)) == 1 << 46


def test_a_part_of_a_live_blob_is_not_overwritten() -> None:
    segment = planned(
        "Relu(x) -> a",
        "Split(a) -> b, c  axis=1",
        "Relu(b) -> d",
        "Add(d, c) -> e",
        "Relu(a) -> f",
        "Slice(f) -> g  starts=[0, 2, 0, 0]  ends=[-1, -1, -1, -1]",
        "Add(e, g) -> y",
    )
    assert share(segment, ("d", "a")) == [False]


def test_a_contiguous_slice_is_a_view_and_another_is_copied() -> None:
    channels = planned("Relu(x) -> a", "Slice(a) -> y  starts=[0, 1, 0, 0]  ends=[-1, 3, -1, -1]")
    assert types(channels) == ["Relu"]
    rows = planned("Relu(x) -> a", "Slice(a) -> y  starts=[0, 0, 1, 0]  ends=[-1, -1, 3, -1]")
    assert types(rows) == ["Relu", "Slice"]


def test_constants_are_split_without_a_copy_and_never_overwritten() -> None:
    segment = planned(
        "Add(x, w) -> a",
        "Split(w) -> b, c  axis=1",
        "Slice(a) -> d  starts=[0, 2, 0, 0]  ends=[-1, -1, -1, -1]",
        "Add(b, d) -> e",
        "Add(e, c) -> y",
    )
    assert "Split" not in types(segment)
    assert share(segment, ("e", "w"), ("y", "w")) == [False, False]


def test_bytes_that_a_whole_does_not_need_yet_are_free_for_others() -> None:
    """As in a U-Net: one part exists from the beginning, the other is written at the end."""
    segment = planned(
        "Relu(x) -> skip",
        "Softmax(skip) -> a",
        "Softmax(a) -> b",
        "Softmax(b) -> late",
        "Concat(late, skip) -> y, _  axis=1",
    )
    assert "Concat" not in types(segment)
    assert share(segment, ("skip", "y"), ("late", "y"), ("a", "y")) == [True, True, True]
    assert segment.arena_nbytes == segment.liveness_peak_nbytes < 4 * 4096


def test_a_slice_is_copied_if_the_memory_between_slices_would_raise_the_peak() -> None:
    """Nothing can lie between the channels of the first part while two other blobs are large."""
    net = NetDef.from_text("""net "test": x, w4, w64, v64, w60 -> y
        Conv(x, w4) -> small  kernel=3  pad=1
        Conv(x, w64) -> a  kernel=3  pad=1
        Conv(a, v64) -> b  kernel=3  pad=1
        Conv(b, w60) -> big  kernel=3  pad=1
        Concat(small, big) -> c, _  axis=1
        Conv(c, v64) -> y  kernel=3  pad=1""")
    shapes = {"w4": (4, 16, 3, 3), "w64": (64, 16, 3, 3), "v64": (64, 64, 3, 3), "w60": (60, 64, 3, 3)}
    executor = Executor(net, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    segment = executor.plan({"x": TensorSpec((1, 16, 32, 32), np.float32)}, ["y"])
    blobs = {value.name: value for step in segment.steps for value in step.outputs}
    assert blobs["small"].layout is not None
    assert "Concat" in types(segment)
    assert [np.shares_memory(blobs[part].array, blobs["c"].array) for part in ("small", "big")] == [False, True]


def test_the_planner_never_needs_more_than_copying_would() -> None:
    lines = ["Relu(x) -> c0"]
    for i in range(6):
        lines += [f"Sigmoid(c{i}) -> s{i}", f"Slice(s{i}) -> p{i}  starts=[0, 0, 0, 0]  ends=[-1, 1, -1, -1]"]
        lines += [f"Concat(c{i}, p{i}) -> c{i + 1}, _{i}  axis=1"]
    segment = planned(*lines, "Relu(c6) -> y")
    copying = Sharing(segment.steps, segment.feeds)
    copying.share_views()
    copying.share_in_place()
    assert share(segment, ("c0", "c6")) == [True]
    assert segment.arena_nbytes < liveness_peak(copying.groups())


def test_the_order_of_ways_does_not_matter_where_nothing_joins_or_splits() -> None:
    """Such steps are planned in one way alone."""
    segment = planned(
        "Relu(x) -> a", "Sigmoid(a) -> b", "Add(a, b) -> c", "Reshape(c) -> d, _  shape=[4, -1]", "Exp(d) -> y"
    )
    assert segment.layout.decisions.ways == ("in_place",)
    for ways in (("in_place", "parts"), ("parts", "in_place")):
        other = plan_memory_again(segment.steps, segment.feeds, segment.layout.decisions._replace(ways=ways))
        assert (other.within, other.offsets, other.elided) == (segment.layout.within, segment.layout.offsets, set())
        assert other.nbytes == segment.layout.nbytes
    joined = planned("Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> c, _  axis=1", "Exp(c) -> y")
    assert "parts" in joined.layout.decisions.ways
