"""Who lives in whose memory, in sentences."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from runtime_arm.arena import liveness_peak
from runtime_arm.executor import Executor
from runtime_arm.memory import Sharing
from runtime_arm.netdef import NetDef
from runtime_arm.plan import Segment

WIDE = (1, 4, 16, 16)  # 4 KB


def planned(*lines: str, shape: Sequence[int] = WIDE, fetches: str = "y") -> Segment:
    """The segment of a net over x, which has run once; its results are those without any sharing."""
    net = NetDef.from_text("\n".join([f'net "test": x, w -> {fetches}', *lines]))
    constants = {"w": np.ones((1, 4, 16, 16), np.float32)}
    feed = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    names = [name.strip() for name in fetches.split(",")]
    executor = Executor(net, constants)
    results = executor.run(feed, names)
    expected = reference(net, {**constants, **feed})
    for name in names:
        np.testing.assert_array_equal(results[name], expected[name])
    return executor.plan_for(feed, names)


def reference(net: NetDef, blobs: Dict[str, Any]) -> Dict[str, Any]:
    """Every blob, one operator after the other in memory of its own."""
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


def test_what_is_joined_is_written_where_the_whole_will_be() -> None:
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


def test_with_a_larger_batch_parts_are_not_in_one_piece_and_are_copied() -> None:
    lines = ["Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> y, _  axis=1"]
    assert "Concat" in types(planned(*lines, shape=(2, 4, 16, 16)))
    along_the_batch = planned(*lines[:2], "Concat(a, b) -> y, _  axis=0", shape=(2, 4, 16, 16))
    assert "Concat" not in types(along_the_batch)


def test_stacked_blobs_are_parts_too() -> None:
    segment = planned("Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> y, _  axis=0  add_axis=1")
    assert "Concat" not in types(segment)


def test_a_whole_that_grows_is_not_copied() -> None:
    """As in dense blocks: what was joined before is joined again with one part more."""
    lines = ["Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> c, _1  axis=1", "Exp(c) -> d"]
    segment = planned(*lines, "Concat(a, b, d) -> e, _2  axis=1", "Softsign(e) -> y")
    assert types(segment) == ["Relu", "Sigmoid", "Exp", "Softsign"]
    assert share(segment, ("a", "e"), ("b", "e"), ("c", "e"), ("d", "e")) == [True, True, True, True]


def test_parts_that_lie_in_another_order_beside_others_or_overwritten_are_copied() -> None:
    lines = ["Relu(x) -> a", "Sigmoid(x) -> b", "Concat(a, b) -> c, _1  axis=1", "Exp(c) -> d"]
    for line in ("Concat(b, a, d) -> e, _2  axis=1", "Concat(a, d) -> e, _2  axis=1"):
        assert types(planned(*lines, line, "Add(c, c) -> y", fetches="y, e")).count("Concat") == 1
    late = planned(*lines, "Relu(a) -> f", "Concat(a, b, d) -> e, _2  axis=1", "Softsign(e) -> y", fetches="y, f")
    assert share(late, ("f", "a")) == [False]


def test_a_blob_joined_with_itself_a_constant_or_a_view_of_more_is_copied() -> None:
    for line in ("Concat(a, a) -> y, _  axis=1", "Concat(a, w) -> y, _  axis=1"):
        assert "Concat" in types(planned("Relu(x) -> a", line))


def test_what_is_overwritten_later_is_not_put_into_a_whole_that_lives_on() -> None:
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


def test_what_is_split_stays_where_it_is() -> None:
    segment = planned("Relu(x) -> a", "Split(a) -> b, c  axis=1", "Exp(b) -> d", "Sigmoid(c) -> e", "Add(d, e) -> y")
    assert "Split" not in types(segment)
    assert share(segment, ("b", "a"), ("c", "a")) == [True, True]


def test_a_part_of_something_that_lives_on_is_not_overwritten() -> None:
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


def test_a_slice_in_one_piece_is_a_view_and_another_is_copied() -> None:
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


def test_a_copy_stays_where_doing_without_it_would_raise_the_peak() -> None:
    """The whole would be there from its first part on, at a time when other blobs are large."""
    lines = [
        "Slice(x) -> a  starts=[0, 0, 0, 0]  ends=[-1, 1, -1, -1]",
        "Relu(a) -> small",
        "Tile(x) -> t  tiles=8  axis=1",
        "Sigmoid(t) -> u",
        "Add(t, u) -> v",
        "Slice(v) -> b  starts=[0, 0, 0, 0]  ends=[-1, 8, -1, -1]",
        "Relu(b) -> big",
        "Concat(small, big) -> y, _  axis=1",
    ]
    assert "Concat" in types(planned(*lines))


def test_the_planner_never_needs_more_than_copying_would() -> None:
    lines = ["Relu(x) -> c0"]
    for i in range(6):
        lines += [f"Sigmoid(c{i}) -> s{i}", f"Slice(s{i}) -> p{i}  starts=[0, 0, 0, 0]  ends=[-1, 1, -1, -1]"]
        lines += [f"Concat(c{i}, p{i}) -> c{i + 1}, _{i}  axis=1"]
    segment = planned(*lines, "Relu(c6) -> y")
    copying = Sharing(segment.steps, segment.feeds)
    copying.share_views()
    copying.share_in_place()
    assert types(segment).count("Concat") < 6
    assert segment.arena_nbytes == segment.liveness_peak_nbytes <= liveness_peak(copying.lifetimes())
