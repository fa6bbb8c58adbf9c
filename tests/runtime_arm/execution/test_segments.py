"""What runs behind an operator whose output shape depends on data: it inherits what is read there, and nothing else."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.arena import allocate
from runtime_arm.planning.merges import find as merging
from runtime_arm.planning.merges.kinds import least_time
from runtime_arm.planning.spare_memory import room_in
from runtime_arm.planning.steps import Value
from runtime_arm.registry.kernel import REFERENCE
from runtime_arm.registry.specs import TensorSpec
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
    assert_close(kept["e"][0, 0], np.maximum(X["x"].mean(axis=1)[0], 0), terms=16)
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
    monkeypatch.setattr(merging, "time_together", lambda merge, known: least_time(merge.step, known) / 100)
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


def chain(behind: str, x: str, count: int) -> List[OperatorDef]:
    """Operators one after another, which need the memory of two of their blobs."""
    names = [x, *(f"{behind}{index}" for index in range(count))]
    return [OperatorDef.of("Softsign", [a], [b]) for a, b in zip(names, names[1:])]


PARTS = 6


def part(index: int, x: str, y: str) -> List[OperatorDef]:
    """A chain, a border, and one operator behind it, which reads what the chain made on its way."""
    name = f"p{index}_"
    return [
        *chain(name, x, 4),
        OperatorDef.of("ReduceMean", [f"{name}3"], [f"means{index}"], axes=[1, 2], keepdims=0),
        OperatorDef.of("NonZero", [f"means{index}"], [f"places{index}"], domain="onnx"),
        OperatorDef.of("Cast", [f"places{index}"], [f"numbers{index}"], to=1),
        OperatorDef.of("ReduceMax", [f"numbers{index}"], [f"most{index}"], keepdims=0),
        OperatorDef.of("Add", [f"{name}1", f"most{index}"], [y]),
    ]


def long_net() -> NetDef:
    names = ["x", *(f"x{index}" for index in range(1, PARTS)), "end"]
    ops = [op for index, (x, y) in enumerate(zip(names, names[1:])) for op in part(index, x, y)]
    return NetDef("long", (*ops, OperatorDef.of("Add", ["end", "p0_2"], ["y"])), ("x",), ("y",))


LONG = long_net()


def pictures(size: int) -> Dict[str, np.ndarray]:
    return {"x": np.random.default_rng(size).standard_normal((2, size, size)).astype(np.float32)}


def unplanned(feeds: Dict[str, np.ndarray]) -> np.ndarray:
    """The output where every blob is fetched, so that none shares memory."""
    names = [name for op in LONG.op for name in op.output]
    return Executor(LONG, {}).run(feeds, names)["y"]  # type: ignore[no-any-return]


def blocks_of(executor: Executor) -> List[Dict[int, int]]:
    """For each plan the memory of its blocks, by address, and what its arenas take."""
    found = []
    for root in executor.plans():
        found.append({id(memory): memory.nbytes for one in walk_segments(root) for memory, _ in one.blocks})
    return found


@pytest.mark.parametrize("workers", [1, 2])
def test_arenas_of_segments_lie_in_one_another(workers: int) -> None:
    """Plans for other sizes have memory of their own; what is read behind a border is there, run after run."""
    executor, feeds = Executor(LONG, {}, workers), [pictures(size) for size in (200, 160, 200)]
    try:
        for given in [*feeds, *feeds]:
            np.testing.assert_array_equal(executor.run(given, ["y"])["y"], unplanned(given))
        for root, blocks in zip(executor.plans(), blocks_of(executor)):
            arenas = [one.arena_nbytes for one in walk_segments(root)]
            assert len(arenas) == PARTS + 1
            assert max(arenas) <= sum(blocks.values()) < 0.6 * sum(arenas)
    finally:
        executor.close()


def test_segments_in_one_memory_keep_to_it_where_free_bytes_are_poisoned() -> None:
    pair = Pair(NetDef(), LONG, (TensorInfo("x", (2, 200, 200), "float32"),)).check()
    assert run_paranoid(pair, pictures(200)).nbytes > 0


def test_predictors_in_threads_have_memory_of_their_own() -> None:
    feeds = [pictures(size) for size in (120, 150, 180)]
    wanted = [unplanned(given) for given in feeds]
    with ThreadPoolExecutor(3) as pool:
        made = [Executor(LONG, {}) for _ in feeds]
        for _ in range(3):
            found = list(pool.map(lambda one: one[0].run(one[1], ["y"])["y"], zip(made, feeds)))
            for one, other in zip(found, wanted):
                np.testing.assert_array_equal(one, other)


def test_what_a_run_leaves_for_the_next_one_is_not_overwritten() -> None:
    """The output lies in memory that the first segment of the next run uses."""
    executor, x = Executor(LONG, {}), pictures(200)["x"]
    executor.run({"x": x}, [], carry={"x": "y"})
    wanted = [unplanned({"x": x})]
    for _ in range(2):
        np.testing.assert_array_equal(executor.carried()["x"], wanted[-1])
        executor.run({}, [], carry={"x": "y"})
        wanted.append(unplanned({"x": wanted[-1]}))
    np.testing.assert_array_equal(executor.carried()["x"], wanted[-1])


def test_contents_that_lead_to_others_are_let_go() -> None:
    """What follows from shapes is computed once, and only its end is kept: the rest is no plan's business."""
    ops = (
        OperatorDef.of("Shape", ["x"], ["shape"]),
        OperatorDef.of("ConstantOfShape", ["shape"], ["zeros"], domain="onnx"),
        OperatorDef.of("Exp", ["zeros"], ["ones"]),
        OperatorDef.of("Add", ["x", "ones"], ["y"]),
    )
    executor, feeds = Executor(NetDef("lead", ops, ("x",), ("y",)), {}), pictures(600)
    np.testing.assert_array_equal(executor.run(feeds, ["y"])["y"], feeds["x"] + 1)
    (plan,) = executor.plans()
    assert plan.env["ones"].spec.value is not None
    assert plan.env["zeros"].spec.value is None
    np.testing.assert_array_equal(executor.run(feeds, ["zeros"])["zeros"], 0 * feeds["x"])


def test_room_between_what_lives() -> None:
    memory = allocate(4096, "a block")
    values = [Value("v", TensorSpec((64,), np.uint8), 0, memory[at : at + 64]) for at in (3000, 128, 1000)]
    places = [room_in([(memory, False)], nbytes, False, values) for nbytes in (128, 129, 809, 1024, 2000)]
    begins = [None if place is None else place.ctypes.data - memory.ctypes.data for place in places]
    assert begins == [0, 192, 1088, 1088, None]
    assert [place is None or place.nbytes for place in places] == [128, 129, 809, 1024, True]
    assert room_in([(memory, False)], 1, True, []) is None
