"""Unpacked weights: their memory goes back once nothing reads them, and they are there again when something does."""

from __future__ import annotations

import mmap
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from optimize import optimize
from optimize.quantization import quantize
from runtime_arm import Pair, Predictor, load
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.files import give_back, mapping_of
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.planning.plan import Segment
from runtime_arm.planning.unpacked import Unpacked
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system takes no pages back")

TEXT = """net "net": x, w1, b1, w2, b2, w3, b3, w4, b4 -> y
Conv(x, w1, b1) -> a  kernel=3  pad=1
Relu(a) -> ra
Conv(ra, w2, b2) -> b  kernel=3  pad=1
Relu(b) -> rb
Conv(rb, w3, b3) -> c  kernel=1
Relu(c) -> rc
AveragePool(rc) -> p  global_pooling=1
FC(p, w4, b4) -> y"""
SHAPES = {"w1": (64, 3, 3, 3), "w2": (128, 64, 3, 3), "w3": (256, 128, 1, 1), "w4": (300, 256)}
PACKED = ("int8", "int4", "float16", "palette")


@operator("TestReleasesTheFirst", inputs=3, domain="test")
def releases_the_first(op: OperatorDef, x: TensorSpec, first: TensorSpec, second: TensorSpec) -> List[TensorSpec]:
    return [x]


@releases_the_first.reference
def releases_the_first_reference(op: OperatorDef, x: Any, first: Any, second: Any) -> List[Any]:
    return [x + first.sum() + second.sum()]


@releases_the_first.kernel("NUMPY")
def releases_the_first_numpy(call: Call) -> Run:
    x, first, second = call.inputs
    total = first.sum()
    call.release(first)

    def run() -> None:
        np.add(x, total + second.sum(), call.outputs[0])

    return run


@pytest.fixture(scope="module")
def plain() -> Pair:
    rng = np.random.default_rng(0)
    values: Dict[str, Any] = {name: rng.standard_normal(shape) / 16 for name, shape in SHAPES.items()}
    values.update({name.replace("w", "b"): rng.standard_normal(shape[0]) for name, shape in SHAPES.items()})
    init = NetDef("init", tuple(fill(name, value.astype(np.float32)) for name, value in values.items()))
    return Pair(init, NetDef.from_text(TEXT), (TensorInfo("x", ("n", 3, "h", "w"), "float32"),))


@pytest.fixture(scope="module")
def packed(plain: Pair) -> Dict[str, Pair]:
    """The net with its weights in each format."""
    return {weights: quantize(plain, None, weights) for weights in PACKED}


def feeds_of(size: int = 16, batch: int = 1) -> Dict[str, Any]:
    return {"x": np.random.default_rng(size).standard_normal((batch, 3, size, size)).astype(np.float32)}


def weights_of(predictor: Predictor) -> List[Unpacked]:
    unpacked = predictor.executor._packed.traced.unpacked
    assert unpacked is not None
    return list(unpacked)


@pytest.mark.parametrize("weights", PACKED)
@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_change_whatever_is_planned_in_between(
    packed: Dict[str, Pair], weights: str, threads: int
) -> None:
    small = packed[weights]
    order = [feeds_of(16), feeds_of(24), feeds_of(16, batch=2), feeds_of(16), feeds_of(24), feeds_of(20)]
    with Predictor(small, threads=threads) as predictor:
        for feeds in order:
            with Predictor(small, threads=threads) as fresh:
                expected = fresh.run(feeds)
            np.testing.assert_array_equal(predictor.run(feeds)["y"], expected["y"])


@pytest.mark.parametrize("weights", PACKED)
def test_what_no_step_reads_is_given_back_and_what_one_reads_stays(packed: Dict[str, Pair], weights: str) -> None:
    with Predictor(packed[weights], threads=1) as predictor:
        predictor.run(feeds_of())
        found = {weight.op.output[0]: weight for weight in weights_of(predictor)}
        assert {name for name, weight in found.items() if not weight.is_there} >= {"w2", "w3"}
        assert all(weight.array.any() == weight.is_there for weight in found.values())
        predictor.run(feeds_of(24))
        assert not found["w2"].is_there


def test_a_weight_that_is_fetched_is_there_and_stays(packed: Dict[str, Pair]) -> None:
    small = packed["int8"]
    with Predictor(small, threads=1) as predictor:
        predictor.run(feeds_of())
        results = predictor.run(feeds_of(), keep=["w2"])
        wanted = Predictor(small, threads=1).run(feeds_of(), keep=["w2"])
        np.testing.assert_array_equal(results["w2"], wanted["w2"])
        assert results["w2"].any()
        for size in (24, 16):
            predictor.run(feeds_of(size))
        np.testing.assert_array_equal(predictor.run(feeds_of(), keep=["w2"])["w2"], wanted["w2"])


def test_a_weight_that_a_later_plan_reads_while_it_runs_stays_from_then_on(plain: Pair) -> None:
    """The second plan multiplies by the weight itself; the third, for which it is packed, must not take it away."""
    text = 'net "two": x, w, m -> y, z\n Conv(x, w) -> y  kernel=1\n Reshape(w) -> r, old  shape=[64, 64]\n'
    text += " MatMul(m, r) -> z"
    values = {"w": np.random.default_rng(0).standard_normal((64, 64, 1, 1)).astype(np.float32)}
    init = NetDef("init", (fill("w", values["w"]),))
    inputs = TensorInfo("x", ("n", 64, "h", "w"), "float32"), TensorInfo("m", ("k", 64), "float32")
    small = quantize(Pair(init, NetDef.from_text(text), inputs))

    def feeds(size: int) -> Dict[str, Any]:
        rng = np.random.default_rng(size)
        return {
            "x": rng.standard_normal((1, 64, size, size)).astype(np.float32),
            "m": rng.standard_normal((size, 64)).astype(np.float32),
        }

    with Predictor(small, threads=1) as predictor:
        for size in (12, 16, 12, 20, 12):
            results, wanted = predictor.run(feeds(size)), Predictor(small, threads=1).run(feeds(size))
            for name in wanted:
                np.testing.assert_array_equal(results[name], wanted[name])


def executor_of(text: str, **constants: Any) -> Executor:
    net = NetDef.from_text(f'net "net": x, half, {", ".join(constants)} -> y, z\n HalfToFloat(half) -> w\n {text}')
    return Executor(net, {"half": HALF, **constants})


HALF = np.random.default_rng(0).standard_normal((80, 80)).astype(np.float16)
X = np.ones((4, 80), np.float32)


@pytest.mark.parametrize("second", ["w", "r"])
def test_a_step_that_reads_a_weight_twice_and_releases_one_of_the_two_keeps_it(second: str) -> None:
    lines = ["Reshape(w) -> r, old  shape=[6400]", f"test.TestReleasesTheFirst(x, w, {second}) -> y", "Copy(x) -> z"]
    executor = executor_of("\n ".join(lines), unread=np.zeros(1, np.float32))
    for _ in range(2):
        np.testing.assert_array_equal(executor.run({"x": X}, ["y"])["y"], X + 2 * HALF.astype(np.float32).sum())


def test_a_weight_that_a_plan_reads_by_a_view_stays_when_another_plan_has_no_view() -> None:
    text = """test.TestReleasesTheFirst(x, w, five) -> y
        onnx.Shape(x) -> s
        Slice(s) -> n  starts=[0]  ends=[1]
        EQ(n, four) -> c
        If(c) -> z  then_net={
          CopyOnDeviceLike(w, x) -> v
          MatMul(x, v) -> z
        } else_net={
          Sigmoid(x) -> z
        }"""
    executor = executor_of(text, five=np.full(1, 5, np.float32), four=np.array([4]))
    before = executor.run({"x": X}, ["y", "z"])
    weight = HALF.astype(np.float32)
    assert_close(before["z"], X @ weight, terms=len(weight), magnitude=np.abs(X) @ np.abs(weight))
    executor.run({"x": X[:2]}, ["y", "z"])
    np.testing.assert_array_equal(executor.run({"x": X}, ["y", "z"])["z"], before["z"])


def test_a_plan_that_is_interrupted_leaves_no_zeros_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of("test.TestReleasesTheFirst(x, w, five) -> y\n Copy(x) -> z", five=np.full(1, 5, np.float32))

    def interrupted(memory: mmap.mmap) -> None:
        give_back(memory)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("runtime_arm.planning.unpacked.give_back", interrupted)
        with pytest.raises(KeyboardInterrupt):
            executor.run({"x": X}, ["y"])
    np.testing.assert_array_equal(executor.run({"x": X}, ["y"])["y"], X + (HALF.astype(np.float32).sum() + 5))


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_a_packed_net_holds_no_more_bytes_than_one_of_floats(
    plain: Pair, packed: Dict[str, Pair], weights: str, tmp_path: Path
) -> None:
    optimize(plain).save(tmp_path / "float")
    packed[weights].save(tmp_path / "packed")
    assert _held(tmp_path / "packed") <= _held(tmp_path / "float") + (1 << 16)  # half of the third weight


def _held(folder: Path) -> int:
    """The bytes that a loaded pair holds after a run: what Python and NumPy have allocated, and what lies in mapped
    files or in pages of its own and is read while the net runs."""
    with load(folder, threads=1) as warm:
        warm.run(feeds_of())
    tracemalloc.start()
    try:
        with load(folder, threads=1) as predictor:
            predictor.run(feeds_of())
            (segment,) = predictor.executor.plans()
            mapped = {
                id(value.array): value.array.nbytes
                for step in segment.steps
                for value in step.inputs
                if value is not None and value.foreign and mapping_of(value.array) is not None
                if not any(value.array is one for one in step.released)
            }
            return tracemalloc.get_traced_memory()[0] + sum(mapped.values())
    finally:
        tracemalloc.stop()


def test_the_plan_of_a_packed_net_is_kept_for_the_next_start(
    packed: Dict[str, Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    packed["int8"].save(tmp_path / "packed")
    with load(tmp_path / "packed", threads=1) as predictor:
        wanted = predictor.run(feeds_of())
        others = predictor.run(feeds_of(24))
    with monkeypatch.context() as patch:
        constants = run_init_net(Pair.load(tmp_path / "packed").init_net)
        patch.setattr("runtime_arm.execution.predictor.run_init_net", lambda net: constants)
        patch.setattr(Segment, "_draft", None)
        predictor = load(tmp_path / "packed", threads=1)
        np.testing.assert_array_equal(predictor.run(feeds_of())["y"], wanted["y"])
        assert not all(weight.is_there for weight in weights_of(predictor))
    np.testing.assert_array_equal(predictor.run(feeds_of(24))["y"], others["y"])
    np.testing.assert_array_equal(predictor.run(feeds_of())["y"], wanted["y"])
    predictor.close()


def test_what_is_packed_is_given_back_once_all_steps_are_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read meanwhile brings neighbouring pages of the file back."""
    given: List[Array] = []
    monkeypatch.setattr("runtime_arm.planning.unpacked.drop_pages", given.append)
    executor = executor_of("test.TestReleasesTheFirst(x, w, five) -> y", five=np.full(1, 5, np.float32))
    executor.run({"x": X}, ["y"])
    assert [one.dtype for one in given] == [HALF.dtype]
    np.testing.assert_array_equal(given[0], HALF)
