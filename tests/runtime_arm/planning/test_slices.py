"""Concat in tiles: parts are channel slices of the whole, and only a part that cannot be one is copied."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given, settings

from device_tests.suite.tolerance import assert_close
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.planning import memory_sharing as memory
from runtime_arm.planning import plan
from runtime_arm.planning.memory_sharing import MemoryPlan, Sharing
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.kernel import REFERENCE
from tests.support.random_nets import TILED, RandomNet, random_nets
from tests.support.tiles import tiles_everywhere

CHANNELS = 32
SHAPE = (1, CHANNELS, 14, 14)
Nets = Tuple[NetDef, Dict[str, np.ndarray], Dict[str, np.ndarray]]


def of_text(lines: Sequence[str], shape: Sequence[int] = SHAPE, fetches: str = "y") -> Nets:
    """A net over x; ``c3 a -> b`` is a convolution of that size, of as many filters as the blob's name says (b16), else
    of CHANNELS; ``bn a -> b`` a normalisation."""
    channels, weights, text = {"x": shape[1]}, {}, []
    draw = np.random.default_rng(0)
    for line in lines:
        kind, *words = line.split()
        if kind in ("c1", "c3", "c5"):
            size, (x, _, y) = int(kind[1]), words
            filters = int("".join(filter(str.isdigit, y)) or CHANNELS)
            scale = np.float32((channels[x] * size**2) ** -0.5)
            weights[f"w_{y}"] = draw.standard_normal((filters, channels[x], size, size)).astype(np.float32) * scale
            channels[y] = filters
            text.append(f"Conv({x}, w_{y}) -> {y}  kernel={size}  pad={size // 2}")
        elif kind == "bn":
            (x, _, y) = words
            channels[y] = channels[x]
            weights[f"s_{y}"] = draw.random(channels[x], np.float32) + np.float32(0.5)
            text.append(f"SpatialBN({x}, {', '.join([f's_{y}'] * 4)}) -> {y}  is_test=1")
        elif kind == "join":
            parts, y = words[: words.index("->")], words[-1]
            channels[y] = sum(channels[part] for part in parts)
            text.append(f"Concat({', '.join(parts)}) -> {y}, {y}_sizes  axis=1")
        else:
            channels[line.split("-> ")[1].split()[0]] = channels[line.split("(")[1].split(")")[0].split(",")[0]]
            text.append(line)
    net = NetDef.from_text("\n".join([f'net "test": {", ".join(["x", *weights])} -> {fetches}', *text]))
    return net, weights, {"x": draw.standard_normal(shape).astype(np.float32)}


def planned(*lines: str, shape: Sequence[int] = SHAPE, fetches: str = "y") -> Segment:
    """The segment of the net in tiles; its results equal, bit by bit, those of the same steps without shared memory."""
    net, weights, feeds = of_text(lines, shape, fetches)
    names = net.external_output
    with tiles_everywhere():
        executor = Executor(net, weights)
        for _ in range(2):
            results = executor.run(feeds, names)
        with nothing_shared():
            expected = Executor(net, weights).run(feeds, names)
    for name in names:
        np.testing.assert_array_equal(results[name], expected[name])
        assert np.isfinite(results[name]).all()
        assert np.abs(results[name]).max() > 0
    return executor.plan(feeds, names)


@contextmanager
def nothing_shared() -> Iterator[None]:
    """Inside the block, plans give every value except views its own memory for the whole run."""

    def plan_memory(steps: Sequence[Step], feeds: Sequence[Value]) -> MemoryPlan:
        for value in [*feeds, *(value for step in steps for value in step.outputs)]:
            value.last = len(steps)
        return memory.plan_memory(steps, feeds)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(plan, "plan_memory", plan_memory)
        monkeypatch.setattr(Sharing, "elide_copies", lambda sharing: None)
        yield


def concats(segment: Segment) -> int:
    return sum(step.op.type == "Concat" for step in segment.running)


def slices(segment: Segment) -> List[str]:
    """The names of the blobs that are slices."""
    values = [value for step in segment.steps for value in step.outputs]
    return sorted({value.name for value in values if not value.array.flags.c_contiguous})


def blob(segment: Segment, name: str) -> Value:
    """The first value of that name that a step makes."""
    return next(value for step in segment.steps for value in step.outputs if value.name == name)


PEAK = ["c1 x -> u900", "c1 u900 -> v"]  # behind which a few channels more do not raise the peak
FIRE = ["c1 x -> s16", "c1 s16 -> a24", "c3 s16 -> b40", "join a24 b40 -> whole"]


def test_the_halves_of_a_fire_module_are_written_side_by_side() -> None:
    segment = planned(*FIRE, "c1 whole -> y")
    assert concats(segment) == 0
    assert slices(segment) == ["a24", "b40"]
    (join,) = (step for step in segment.steps if step.op.type == "Concat")
    a, b = (value.array for value in join.inputs if value is not None)
    whole = join.outputs[0].array
    assert a.strides == b.strides == whole.strides
    assert np.shares_memory(a, whole[..., :24])
    assert np.shares_memory(b, whole[..., 24:])
    assert not np.shares_memory(a, b)


def test_slices_are_used_for_any_batch() -> None:
    assert concats(planned(*FIRE, "c1 whole -> y", shape=(3, CHANNELS, 9, 11))) == 0


def test_the_branches_of_an_inception_module_with_a_pool_are_written_side_by_side() -> None:
    lines = [
        "c1 x -> a8",
        "c1 x -> r16",
        "c3 r16 -> b24",
        "c1 x -> t4",
        "c5 t4 -> d12",
        "MaxPool(x) -> p  kernel=3  stride=1  pad=1",
        "c1 p -> e20",
        "MaxPool(x) -> q  kernel=3  stride=1  pad=1",
        "join a8 b24 d12 e20 q -> whole",
        "c1 whole -> u16",
        "c3 whole -> v16",
        "join u16 v16 -> y",
    ]
    assert concats(planned(*lines)) == 0


def test_the_step_that_converts_a_feed_writes_its_slice() -> None:
    segment = planned("c1 x -> a", "join x a -> whole", "c3 whole -> y")
    assert concats(segment) == 0
    assert slices(segment) == ["a", "x"]


def test_dense_blocks_lie_in_one_memory() -> None:
    lines = [
        *PEAK,
        "c3 v -> a",
        "c1 a -> q",
        "c3 q -> g8",
        "join a g8 -> d",
        "c1 d -> r",
        "c3 r -> h8",
        "join d h8 -> e",
        "c1 e -> s",
        "c3 s -> i8",
        "join e i8 -> f",
        "c1 f -> y",
    ]
    segment = planned(*lines)
    assert concats(segment) == 0
    assert slices(segment) == ["a", "d", "e", "g8", "h8", "i8"]


def test_a_part_whose_readers_take_slices_is_not_copied() -> None:
    """A 1x1 convolution reads slices, and so do pools and conversions of the layout."""
    for reader in ("c1 b40 -> z64", "MaxPool(b40) -> z  kernel=2  stride=2", "Softmax(b40) -> z  axis=1"):
        segment = planned(*FIRE, reader, "c1 whole -> y", fetches="y, " + reader.split("-> ")[1].split()[0])
        assert concats(segment) == 0, reader


def test_only_the_part_whose_reader_needs_it_contiguous_is_copied() -> None:
    segment = planned(*PEAK, *FIRE, "Tanh(b40) -> t", "c1 t -> z64", "c1 whole -> y", fetches="y, z64")
    assert concats(segment) == 1
    assert slices(segment) == ["a24"]


def test_a_part_that_is_joined_twice_is_copied_once() -> None:
    segment = planned(*PEAK, "c3 v -> a24", "c3 v -> b40", "join a24 b40 a24 -> whole", "c1 whole -> y")
    assert concats(segment) == 1
    assert slices(segment) == ["a24", "b40"]
    segment = planned(*PEAK, *FIRE, "join b40 a24 -> other", "c3 whole -> z8", "c3 other -> y", fetches="y, z8")
    assert concats(segment) == 1
    assert slices(segment) == ["a24", "b40"]


def test_a_result_that_may_be_a_slice_overwrites_a_slice_of_a_dead_whole() -> None:
    halves = [*PEAK, "c1 x -> s16", "c3 s16 -> a24", "c3 s16 -> b40", "join a24 b40 -> whole"]
    first = [*halves, "c1 whole -> z8", "bn a24 -> r24", "c1 r24 -> y"]
    segment = planned(*first, fetches="y, z8")
    assert slices(segment) == ["a24", "b40", "r24"]
    assert np.shares_memory(blob(segment, "r24").array, blob(segment, "a24").array)
    later = [*halves, "bn a24 -> r24", "c1 r24 -> y", "c1 whole -> z8"]
    segment = planned(*later, fetches="y, z8")
    assert slices(segment) == ["a24", "b40"]
    assert not np.shares_memory(blob(segment, "r24").array, blob(segment, "a24").array)
    segment = planned(*halves, "c1 whole -> z8", "bn a24 -> r24", "Tanh(r24) -> y", fetches="y, z8")
    assert slices(segment) == ["a24", "b40"]


def test_fetching_a_part_or_the_whole_changes_nothing() -> None:
    segment = planned(*FIRE, "c1 whole -> y", fetches="y, a24, whole")
    assert concats(segment) == 0
    assert segment.env["a24"].array.shape == (1, 24, 14, 14)


def test_a_copy_stays_if_removing_it_would_raise_the_peak() -> None:
    """The whole is large and would exist at the same time as other blobs; a part that is made late can lie in it."""
    lines = [
        "c1 x -> early200",
        "c1 x -> u400",
        "c1 u400 -> v400",
        "c1 v400 -> late16",
        "join early200 late16 -> whole",
        "c1 whole -> y",
    ]
    segment = planned(*lines)
    assert concats(segment) == 1
    assert slices(segment) == ["late16"]
    copying = Sharing(segment.steps, segment.feeds)
    copying.share_views()
    copying.share_in_place()
    assert segment.liveness_peak_nbytes <= copying.peak()


def test_poison_between_slices_changes_no_result() -> None:
    net, weights, feeds = of_text([*FIRE, "c3 whole -> b", "join whole b -> v", "c1 v -> y"])
    fills = NetDef("init", tuple(fill(name, value) for name, value in weights.items()))
    with tiles_everywhere():
        result = run_paranoid(Pair(fills, net, (TensorInfo("x", SHAPE, "float32"),)).check(), feeds)
    assert np.isfinite(result.outputs["y"]).all()


def test_a_slice_that_is_not_written_is_poisoned() -> None:
    """So a worker that omits its part of a whole is found."""
    from runtime_arm.execution.paranoid import _free_memory

    segment = planned(*FIRE, "c1 whole -> y")
    poisoned = dict(_free_memory(segment))
    (late,) = (step for step in segment.running if step.op.output[0] == "b40")
    for piece in poisoned[late]:
        assert not np.shares_memory(piece, blob(segment, "a24").array)
    covered = sum(piece.nbytes for piece in poisoned[late] if np.shares_memory(piece, late.outputs[0].array))
    assert covered >= late.outputs[0].storage.nbytes


@settings(max_examples=150)
@given(random_nets(kinds=TILED))
def test_random_nets_in_tiles_are_bit_equal_planned_and_unplanned(drawn: RandomNet) -> None:
    names = drawn.net.external_output
    with tiles_everywhere():
        executor = Executor(drawn.net, drawn.weights)
        executor.run(drawn.feed(1), names)
        results = executor.run(drawn.feed(), names)
        with nothing_shared():
            unshared = Executor(drawn.net, drawn.weights).run(drawn.feed(), names)
    expected = by_reference(drawn)
    for name in names:
        assert results[name].tobytes() == unshared[name].tobytes(), name
        assert_close(
            results[name],
            expected[name],
            terms=9 * 24 * 12,
            amplification=256,
            magnitude=max(1.0, float(np.abs(expected[name]).max())),
        )


def by_reference(drawn: RandomNet) -> Dict[str, Any]:
    ops = tuple(op.replace(engine=REFERENCE) for op in drawn.net.op)
    return Executor(drawn.net.replace(op=ops), drawn.weights).run(drawn.feed(), drawn.net.external_output)
