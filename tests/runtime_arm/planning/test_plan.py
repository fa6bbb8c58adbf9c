"""The planner; each test is a sentence."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from runtime_arm.errors import FeedError, NetError, OperatorError, ResourceError, UnknownOperator
from runtime_arm.execution.executor import PLANS_KEPT, SEGMENTS_KEPT, SMALL, Executor, walk_segments
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import DataDependent, operator
from runtime_arm.registry.specs import TensorSpec


@operator("TestPositive", domain="test")
def positive(op, x):
    """The positive elements: an operator whose output shape depends on data."""
    raise DataDependent("x")


@positive.reference
def positive_reference(op, x):
    return [x[x > 0]]


@operator("TestLiar", domain="test")
def liar(op, x):
    """An operator that computes another shape than it infers."""
    return [TensorSpec((1,), x.dtype)]


@liar.reference
def liar_reference(op, x):
    return [x]


@operator("TestClumsy", domain="test")
def clumsy(op, x):
    """An operator whose kernel fails at the place that the argument ``at`` names."""
    return [x]


@clumsy.reference
def clumsy_reference(op, x):
    return [x]


def stumble(at: str):
    def function(op, *unused):
        if op.get_str("at") == at:
            raise ValueError("cannot reshape")
        return () if at == "scratch" else None

    return function


@clumsy.kernel("NUMPY", supports=stumble("supports"), scratch=stumble("scratch"))
def clumsy_numpy(call):
    stumble("bind")(call.op)
    return lambda: None


def net(*lines: str, inputs: str = "x", outputs: str = "y") -> NetDef:
    return NetDef.from_text("\n".join([f'net "test": {inputs} -> {outputs}', *lines]))


def x(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_chain_runs_in_place_in_one_buffer():
    executor = Executor(net("Relu(x) -> a", "Relu(a) -> b", "Relu(b) -> y"), {})
    feed = x(64, 64)
    np.testing.assert_array_equal(executor.run({"x": feed}, ["y"])["y"], np.maximum(feed, 0))
    (segment,) = executor._entries.values()
    assert segment.arena_nbytes == feed.nbytes


def test_a_blob_that_is_read_again_is_not_overwritten():
    executor = Executor(net("Relu(x) -> a", "Add(a, x) -> y"), {})
    feed = x(5, 5)
    np.testing.assert_array_equal(executor.run({"x": feed}, ["y"])["y"], np.maximum(feed, 0) + feed)


def test_a_name_that_is_written_twice_means_the_last_write():
    executor = Executor(net("Relu(x) -> x", "Add(x, x) -> x", outputs="x"), {})
    feed = x(3)
    np.testing.assert_array_equal(executor.run({"x": feed}, ["x"])["x"], 2 * np.maximum(feed, 0))


def test_a_view_keeps_its_source_alive():
    lines = [
        "Relu(x) -> a",
        "Reshape(a) -> flat, _  shape=[-1]",
        "Relu(x) -> b",
        "Relu(b) -> c",
        "Add(flat, flat) -> y",
    ]
    executor = Executor(net(*lines), {})
    feed = x(4, 4)
    np.testing.assert_array_equal(executor.run({"x": feed}, ["y"])["y"], 2 * np.maximum(feed, 0).reshape(-1))


def test_outputs_are_the_callers():
    executor = Executor(net("Relu(x) -> y"), {})
    first = executor.run({"x": np.ones(3, np.float32)}, ["y"])["y"]
    executor.run({"x": np.zeros(3, np.float32)}, ["y"])
    np.testing.assert_array_equal(first, 1)


def test_any_blob_can_be_fetched():
    executor = Executor(net("Relu(x) -> a", "Add(a, a) -> b", "Relu(b) -> y"), {})
    fetched = executor.run({"x": x(7)}, ["y", "a", "b", "x"])
    np.testing.assert_array_equal(fetched["a"], np.maximum(fetched["x"], 0))
    np.testing.assert_array_equal(fetched["b"], 2 * fetched["a"])


def test_an_unknown_fetch_is_refused_by_name():
    with pytest.raises(FeedError, match="'nowhere'"):
        Executor(net("Relu(x) -> y"), {}).run({"x": x(1)}, ["nowhere"])


@pytest.mark.parametrize(("small", "kept"), [(0, PLANS_KEPT), (SMALL, 3 * PLANS_KEPT)])
def test_the_net_is_planned_anew_for_other_shapes_and_plans_are_forgotten(small, kept, monkeypatch):
    """Of those whose arenas are small together more are kept: in loops shapes change at each turn."""
    monkeypatch.setattr("runtime_arm.execution.executor.SMALL", small)
    executor = Executor(net("Relu(x) -> y"), {})
    for n in range(3 * PLANS_KEPT):
        assert executor.run({"x": x(n + 1, 2)}, ["y"])["y"].shape == (n + 1, 2)
    assert len(executor._entries) == kept


def test_the_number_of_small_plans_is_bounded(monkeypatch):
    monkeypatch.setattr("runtime_arm.execution.executor.SMALL_KEPT", 2 * PLANS_KEPT)
    executor = Executor(net("Relu(x) -> y"), {})
    for n in range(3 * PLANS_KEPT):
        executor.run({"x": x(n, 2)}, ["y"])
    assert len(executor._entries) == 2 * PLANS_KEPT


def test_engines_are_chosen_anew_for_other_shapes_and_keep_their_weights_apart():
    """Small and large pictures take turns; different kernels may run their convolutions."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((256, 256, 3, 3)).astype(np.float32) for name in ("v", "w")}
    lines = ["Conv(x, v) -> a  kernel=3  pad=1", "Relu(a) -> b", "Conv(b, w) -> y  kernel=3  pad=1"]
    executor = Executor(net(*lines, inputs="x, v, w"), weights)
    for shape in [(1, 256, 14, 14), (2, 256, 4, 4), (1, 256, 2, 2), (1, 256, 8, 8)] * 2:
        feed = {"x": rng.standard_normal(shape).astype(np.float32)}
        alone = Executor(executor.net, weights).run(feed, ["y"])["y"]
        assert executor.run(feed, ["y"])["y"].tobytes() == alone.tobytes()


def test_what_is_known_is_computed_while_planning():
    executor = Executor(net("Shape(x) -> s", "Relu(w) -> v", "Add(x, v) -> y"), {"w": x(3)})
    fetched = executor.run({"x": x(2, 3)}, ["y", "s"])
    np.testing.assert_array_equal(fetched["s"], [2, 3])
    (segment,) = executor._entries.values()
    assert [step.op.type for step in segment.steps] == ["Add"]


def test_planning_continues_after_a_data_dependent_shape():
    lines = [
        "Relu(x) -> a",
        "test.TestPositive(a) -> p",
        "Add(p, p) -> q",
        "test.TestPositive(q) -> r",
        "Add(r, r) -> y",
        "Relu(a) -> z",
    ]
    executor = Executor(net(*lines, outputs="y, z"), {})
    rng = np.random.default_rng(1)
    for _ in range(20):
        feed = rng.standard_normal((2, 3)).astype(np.float32)
        fetched = executor.run({"x": feed}, ["y", "z"])
        np.testing.assert_array_equal(fetched["y"], 4 * feed[feed > 0])
        np.testing.assert_array_equal(fetched["z"], np.maximum(feed, 0))
    (root,) = executor._entries.values()
    assert 3 < len(list(walk_segments(root))) < 15, "segments are shared by runs that see the same shapes"


CHOICE = [
    "onnx.Shape(x) -> s",
    "Slice(s) -> n  starts=[0]  ends=[1]",
    "EQ(n, two) -> c",
    "If(c) -> y  then_net={",
    "  Relu(x) -> a",
    "  Conv(a, w) -> y  kernel=1",
    "} else_net={",
    "  Sigmoid(x) -> y",
    "}",
    "Add(y, y) -> z",
]


def test_a_branch_whose_condition_follows_from_shapes_is_planned_in_place_of_its_operator():
    constants = {"two": np.array([2], np.int64), "w": np.ones((3, 3, 1, 1), np.float32)}
    executor = Executor(net(*CHOICE, inputs="x, two, w", outputs="z"), constants)
    for size, types in ((2, ["Relu", "Conv", "Add"]), (1, ["Sigmoid", "Add"]), (2, ["Relu", "Conv", "Add"])):
        feed = {"x": x(size, 3, 4, 4)}
        expected = np.repeat(np.maximum(feed["x"], 0).sum(1, keepdims=True), 3, 1)
        expected = expected if size == 2 else 1 / (1 + np.exp(-feed["x"]))
        assert_each_close(executor.run(feed, ["z"])["z"], 2 * expected, terms=3)
        segment = executor.plans()[-1]
        assert segment.border is None
        assert [step.op.type for step in segment.steps if step.index >= 0] == types


@pytest.mark.parametrize("inner", ["test.TestPositive(x) -> y", "Relu(x) -> a\n test.TestPositive(a) -> y"])
def test_a_branch_that_contains_a_border_is_a_border(inner):
    lines = [f"If(c) -> y  then_net={{\n {inner}\n}}", "Add(y, y) -> z"]
    executor = Executor(net(*lines, inputs="x, c", outputs="z"), {"c": np.array([True])})
    for _ in range(2):
        np.testing.assert_array_equal(executor.run({"x": x(5)}, ["z"])["z"], 2 * x(5)[x(5) > 0])
    assert executor.plans()[0].border_at == 0
    assert not executor.plans()[0].steps


@pytest.mark.parametrize(("condition", "expected"), [(True, [7.0, 3.0]), (False, [15.0, 3.0])])
def test_a_branch_may_return_blobs_that_it_did_not_compute(condition, expected):
    """Its outputs by position: an input of the net around it, a constant, a product of constants."""
    then_net = NetDef(external_output=("x", "k"))
    else_net = NetDef.from_text('net "": k, five -> p, k\n Mul(k, five) -> p')
    choice = OperatorDef.of("If", ["c"], ["y", "z"], then_net=then_net, else_net=else_net)
    constants = {"c": np.array(condition), "k": np.array([3.0], np.float32), "five": np.array([5.0], np.float32)}
    executor = Executor(NetDef("", (choice,), ("x", *constants), ("y", "z")), constants)
    for _ in range(2):
        fetched = executor.run({"x": np.array([7.0], np.float32)}, ["y", "z", "x"])
        assert [fetched["y"][0], fetched["z"][0], fetched["x"][0]] == [*expected, 7.0]


@pytest.mark.parametrize(("small", "most"), [(0, SEGMENTS_KEPT), (SMALL, 3 * SEGMENTS_KEPT)])
def test_the_number_of_plans_after_many_borders_is_bounded(small, most, monkeypatch):
    """Each border meets several shapes; there are more combinations than can be kept."""
    monkeypatch.setattr("runtime_arm.execution.executor.SMALL", small)
    monkeypatch.setattr("runtime_arm.execution.executor.SMALL_KEPT", 3 * SEGMENTS_KEPT)
    lines = ["Relu(x) -> a0"]
    for i in range(6):
        lines += [f"Add(x, t{i}) -> s{i}", f"test.TestPositive(s{i}) -> p{i}", f"Add(p{i}, p{i}) -> d{i}"]
    names = [f"t{i}" for i in range(6)]
    executor = Executor(net(*lines, inputs=", ".join(["x", *names]), outputs=", ".join(f"d{i}" for i in range(6))), {})
    rng = np.random.default_rng(0)
    for _ in range(60):
        feed = {name: rng.standard_normal(6).astype(np.float32) for name in ["x", *names]}
        fetched = executor.run(feed, [f"d{i}" for i in range(6)])
        for i, name in enumerate(names):
            total = feed["x"] + feed[name]
            np.testing.assert_array_equal(fetched[f"d{i}"], 2 * total[total > 0])
    kept = [segment for root in executor.plans() for segment in walk_segments(root)]
    assert most // 2 <= len(kept) <= most + 1


def test_a_net_may_have_more_borders_than_plans_are_kept(monkeypatch):
    monkeypatch.setattr("runtime_arm.execution.executor.SMALL", 0)
    count = SEGMENTS_KEPT + 8
    lines = ["Relu(x) -> a0", *(f"test.TestPositive(a{i}) -> a{i + 1}" for i in range(count))]
    executor = Executor(net(*lines, outputs=f"a{count}"), {})
    for size in (5, 6, 5):
        feed = x(size)
        np.testing.assert_array_equal(executor.run({"x": feed}, [f"a{count}"])[f"a{count}"], feed[feed > 0])
    assert len([one for root in executor.plans() for one in walk_segments(root)]) <= count + 2


def test_borders_do_not_make_planning_read_the_whole_net_again(monkeypatch):
    """Detectors have a hundred borders and two thousand operators."""
    asked = []
    reads = OperatorDef.reads
    monkeypatch.setattr(OperatorDef, "reads", lambda op: asked.append(op) or reads(op))
    count = 40
    lines = ["Relu(x) -> a0", *(f"test.TestPositive(a{i}) -> a{i + 1}" for i in range(count))]
    executor = Executor(net(*lines, outputs=f"a{count}"), {})
    for size in (5, 6):
        executor.run({"x": x(size)}, [f"a{count}"])
    assert len(asked) <= 2 * len(lines)


def test_a_second_run_allocates_nothing_but_the_outputs():
    lines = ["Relu(x) -> a", "Add(a, x) -> b", "Mul(b, a) -> c", "Relu(c) -> d", "Add(d, b) -> y"]
    executor = Executor(net(*lines), {})
    feed = x(256, 1024)
    executor.run({"x": feed}, ["y"])
    tracemalloc.start()
    try:
        executor.run({"x": feed}, ["y"])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < feed.nbytes + 100_000


def test_a_missing_blob_is_named():
    with pytest.raises(NetError, match=r"Add\(x, nowhere\) -> y: blob 'nowhere'"):
        Executor(net("Add(x, nowhere) -> y", inputs=""), {}).run({"x": x(1)}, ["y"])


def test_an_unknown_operator_is_refused_before_anything_runs():
    with pytest.raises(UnknownOperator, match="Frobnicate"):
        Executor(net("Frobnicate(x) -> y"), {})


def test_a_refusal_of_shapes_names_operator_and_blobs():
    with pytest.raises(OperatorError, match=r"Add\(x, w\) -> y"):
        Executor(net("Add(x, w) -> y", inputs="x, w"), {}).run({"x": x(2), "w": x(3)}, ["y"])


def test_an_absurd_size_is_refused_before_it_is_allocated():
    lines = ["onnx.ConstantOfShape(s) -> y"]
    with pytest.raises(ResourceError, match=r"ConstantOfShape\(s\) -> y.*needs"):
        Executor(net(*lines, inputs="s"), {"s": np.array([1 << 30, 1 << 30])}).run({}, ["y"])


def test_a_kernel_that_computes_another_shape_than_inferred_is_found():
    with pytest.raises(OperatorError, match="inferred"):
        Executor(net("test.TestLiar(x) -> y"), {}).run({"x": x(2)}, ["y"])


@pytest.mark.parametrize("at", ["supports", "scratch", "bind"])
def test_an_exception_of_a_kernel_while_planning_names_operator_and_blobs(at: str):
    with pytest.raises(OperatorError, match=r"TestClumsy\(x\) -> y: ValueError: cannot reshape; inputs float32\[2\]"):
        Executor(net(f'test.TestClumsy(x) -> y  at="{at}"'), {}).run({"x": x(2)}, ["y"])


def test_a_feed_of_another_dtype_makes_another_plan():
    executor = Executor(net("Add(x, x) -> y"), {})
    for dtype in (np.int64, np.float32, np.int32):
        assert executor.run({"x": np.array([-1, 2], dtype)}, ["y"])["y"].dtype == dtype


def test_packed_weights_follow_constants_that_depend_on_the_shape_of_an_input():
    w = np.ones((3, 1, 3, 3), np.float32)
    scaled = "Shape(x) -> n  axes=[0]", "Cast(n) -> scale  to=1", "Mul(w, scale) -> v"
    executor = Executor(net(*scaled, "Conv(x, v) -> y  kernel=3  group=3", inputs="x, w"), {"w": w})
    for batch in (1, 2, 1):
        y = executor.run({"x": np.ones((batch, 3, 24, 24), np.float32)}, ["y"])["y"]
        np.testing.assert_array_equal(y, np.full_like(y, 9 * batch))
    (step,) = [step for step in executor.plans()[-1].steps if step.op.type == "Conv"]
    assert step.engine == "DEPTHWISE"
