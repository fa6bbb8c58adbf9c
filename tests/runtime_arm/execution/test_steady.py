"""Loops whose shapes do not change run on memory that stays; they give what they give trip by trip."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
import pytest

from runtime_arm.execution.executor import Executor, SubNets
from runtime_arm.execution.steady import Steady
from runtime_arm.netdef import NetDef
from tests.support.exact import assert_same

RANDOM = np.random.default_rng(5)
FEEDS: Dict[str, Any] = {
    "n": np.array(5),
    "yes": np.array(True),
    "x": RANDOM.standard_normal((2, 3)).astype(np.float32),
    "z": RANDOM.standard_normal((2, 3)).astype(np.float32),
    "k": RANDOM.standard_normal((3,)).astype(np.float32),
    "three": np.array(3),
}


def loop(head: str, *lines: str, call: str = "n, yes, x, z", results: str = "a, b") -> NetDef:
    inside = "\n".join(lines)
    return NetDef.from_text(
        f"""net "": {", ".join(FEEDS)} -> {results}
        onnx.Loop({call}) -> {results}  body={{
        net "body": {head}
        {inside}
        }}"""
    ).check()


# What a body gives back, in the memory of what it was given or elsewhere, in place, exchanged, scanned.
STEADY: Sequence[NetDef] = (
    loop("i, go, p, q -> go, p2, q2", "onnx.Mul(p, k) -> p2", "onnx.Add(q, p2) -> q2"),
    loop("i, go, p, q -> go, p2, q", "Relu(p) -> r", "onnx.Add(r, q) -> p2"),
    loop("i, go, p, q -> go, p, q2", "onnx.Add(q, p) -> q2"),
    loop("i, go, p, q -> go, p2, q2", "Sigmoid(p) -> p2", "Cast(i) -> f  to=1", "onnx.Add(q, f) -> q2"),
    loop("i, go, p, q -> go, p2, z", "onnx.Sub(p, q) -> p2"),
    loop("i, go, p, q -> more, p2, q2", "onnx.Less(i, three) -> more", "Relu(q) -> q2", "onnx.Sub(p, k) -> p2"),
    loop("i, go, p, q -> go, p2, q, p2, i", "onnx.Sub(p, q) -> p2", results="a, b, c, d"),
    loop("i, go, p, q -> go, p2, q, p, k", "onnx.Sub(p, k) -> p2", results="a, b, c, d"),
    loop("i, go, p, q -> go, p2, q", "Reshape(p) -> r, _  shape=[6]", "Reshape(r) -> p2, o  shape=[2, 3]"),
    loop("i, go, p, q -> go, p2, q2", "onnx.Sub(p, k) -> p2", "Relu(q) -> q2", call='n, "", x, z'),
    loop("i, go -> go, s", "onnx.Mul(x, k) -> s", call="n, yes", results="s"),
)

# What lies where something else must go, other shapes in each trip, and an operator whose results have any shape.
OTHERS: Sequence[NetDef] = (
    loop("i, go, p, q -> go, p2, q2, t", "Exp(p) -> t", "Relu(q) -> q2", "Copy(q2) -> p2", results="a, b, c"),
    loop("i, go, p, q -> go, q, p"),
    loop("i, go, p, q -> go, q2, p2", "Relu(q) -> q2", "Exp(p) -> p2"),
    loop("i, go, p, q -> go, p2, q", "Concat(p, p) -> p2, _  axis=0"),
    loop("i, go, p, q -> go, p2, q", "Concat(p, x) -> p2, _  axis=0"),
    loop("i, go, p, q -> go, p2, s", "onnx.NonZero(p) -> t", "onnx.ReduceSum(t) -> s", "Relu(p) -> p2"),
)


def run(net: NetDef, **feeds: Any) -> List[Any]:
    executor = Executor(net, {})
    twice = [executor.run({**FEEDS, **feeds}, net.external_output) for _ in range(2)]
    for name in net.external_output:
        assert_same(twice[0][name], twice[1][name])
    return list(twice[1].values())


def counted(monkeypatch: pytest.MonkeyPatch) -> List[int]:
    """How many trips each steady loop was given."""
    trips: List[int] = []
    usual = Steady.loop

    def noting(self: Steady, state: Any, rest: range, holds: Any) -> Tuple[List[Any], List[List[Any]]]:
        trips.append(len(rest))
        return usual(self, state, rest, holds)

    monkeypatch.setattr(Steady, "loop", noting)
    return trips


def trip_by_trip(net: NetDef, monkeypatch: pytest.MonkeyPatch, **feeds: Mapping[str, Any]) -> List[Any]:
    with monkeypatch.context() as patched:
        patched.setattr(SubNets, "steady", lambda *_: None)
        return run(net, **feeds)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize(("net", "steady"), [*((net, True) for net in STEADY), *((net, False) for net in OTHERS)])
def test_they_give_what_they_give_trip_by_trip(
    net: NetDef, steady: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds: Dict[str, Any] = {"n": np.array(count)}
    expected, trips = trip_by_trip(net, monkeypatch, **feeds), counted(monkeypatch)
    for actual, wanted in zip(run(net, **feeds), expected):
        assert_same(actual, wanted)
    assert trips == ([count - 1] * 2 if steady and count > 1 else [])
