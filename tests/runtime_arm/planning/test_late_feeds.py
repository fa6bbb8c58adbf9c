"""Inputs that a step joins with others are copied by that step; each test is a sentence."""

from __future__ import annotations

import sys
from typing import Any, Dict, Sequence, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef

SHAPES = {"x": (4, 64, 1), "past": (4, 64, 32), "other": (4, 64, 32)}
JOINED = "Relu(x) -> a\n Concat(past, a) -> whole, _  axis=2\n Exp(whole) -> y"


def executor(operators: str, outputs: str = "y", workers: int = 1) -> Executor:
    return Executor(NetDef.from_text(f'net "cache": {", ".join(SHAPES)} -> {outputs}\n {operators}'), {}, workers)


def feeds(seed: int) -> Dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def own_memory(net: Executor, fetches: Sequence[str]) -> Any:
    """The memory of the input ``past``, after a first run, full of NaN."""
    memory = net.plan(feeds(0), fetches).env["past"].array
    memory.fill(np.nan)
    return memory


def expected(given: Dict[str, Any]) -> Any:
    return np.exp(np.concatenate([given["past"], np.maximum(given["x"], 0)], 2))


def test_what_a_step_joins_is_not_copied_before() -> None:
    net = executor(JOINED)
    memory = own_memory(net, ["y"])
    for seed in range(3):
        assert_close(net.run(feeds(seed), ["y"])["y"], expected(feeds(seed)))
    assert np.isnan(memory).all()


def test_a_run_lets_go_of_what_it_was_given() -> None:
    net, given = executor(JOINED), feeds(1)
    before = sys.getrefcount(given["past"])
    net.run(given, ["y"])
    after = sys.getrefcount(given["past"])
    assert after == before


def test_what_lies_in_the_inputs_own_memory_is_read_there() -> None:
    net = executor(JOINED)
    net.run(feeds(0), ["y"])
    memory = net.plan(feeds(0), ["y"]).env["past"].array
    given = feeds(2)
    memory[...] = given["past"]
    assert_close(net.run({**given, "past": memory}, ["y"])["y"], expected(given))


@pytest.mark.parametrize(
    ("operators", "fetches"),
    [
        (f"{JOINED}\n Relu(past) -> z", ("y", "z")),
        (JOINED, ("y", "past")),
        ("Concat(past, past) -> whole, _  axis=2\n Exp(whole) -> y", ("y",)),
        ("Relu(past) -> y", ("y",)),
    ],
)
def test_what_is_read_elsewhere_is_copied_when_a_run_begins(operators: str, fetches: Tuple[str, ...]) -> None:
    net = executor(operators, ", ".join(name for name in fetches if name != "past"))
    memory = own_memory(net, fetches)
    net.run(feeds(1), fetches)
    assert not np.isnan(memory).any()


def test_arrays_of_other_kinds_are_copied_when_a_run_begins() -> None:
    net, first, second = executor(JOINED), feeds(1), feeds(2)
    segment = net.plan(first, ["y"])
    segment.feed(first)  # by a run that ended here
    other = {**second, "past": second["past"].view(np.recarray)}
    assert_close(net.run(other, ["y"])["y"], expected(second))


def test_inputs_of_several_joins_all_go_late() -> None:
    net = executor(f"{JOINED}\n Concat(other, a) -> more, _1  axis=2\n Exp(more) -> z", "y, z")
    for seed in (1, 2):
        given = feeds(seed)
        found = net.run(given, ["y", "z"])
        assert_close(found["y"], expected(given))
        assert_close(found["z"], expected({**given, "past": given["other"]}))


@pytest.mark.parametrize("empty", ["x", "other"])
def test_what_is_joined_may_be_empty(empty: str) -> None:
    given = {**feeds(4), empty: np.zeros((4, 64, 0), np.float32)}
    net = executor("Concat(other, past, x) -> whole, _  axis=2\n Exp(whole) -> y")
    wanted = np.exp(np.concatenate([given["other"], given["past"], given["x"]], 2))
    assert_close(net.run(given, ["y"])["y"], wanted)


def test_workers_get_the_same() -> None:
    given = feeds(3)
    net = executor(JOINED, workers=2)
    try:
        for _ in range(2):
            np.testing.assert_array_equal(net.run(given, ["y"])["y"], executor(JOINED).run(given, ["y"])["y"])
    finally:
        net.close()
