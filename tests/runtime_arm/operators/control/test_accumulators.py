"""Carried blobs that only grow: the body is given none of what is there already, and the result is the same."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.errors import OperatorError
from runtime_arm.execution.executor import Executor
from runtime_arm.execution.steady import Steady
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.control.control import loop_reference, scan_reference
from runtime_arm.registry.specs import TensorSpec
from tests.support.exact import assert_same


def op(type: str, inputs: str, outputs: str, **arguments: Any) -> OperatorDef:
    domain = "onnx" if type in ("Loop", "Scan", "Slice") else ""
    return OperatorDef.of(type, inputs.split(), outputs.split(), domain=domain, **arguments)


def net(inputs: str, outputs: str, *ops: OperatorDef) -> NetDef:
    return NetDef(op=tuple(ops), external_input=tuple(inputs.split()), external_output=tuple(outputs.split()))


def run(feeds: Mapping[str, Any], fetches: str, *ops: OperatorDef) -> List[Any]:
    found = Executor(net(" ".join(feeds), fetches, *ops).check(), {}).run(feeds, fetches.split())
    return [found[name] for name in fetches.split()]


class Given:
    """A SubNets that runs a body and notes how many elements of a carried blob it was given."""

    def __init__(self, name: str, around: Mapping[str, Any]):
        self.name, self.around = name, around
        self.sizes: List[int] = []

    def run(self, body: NetDef, feeds: Dict[str, Any], fetches: Sequence[str]) -> List[Any]:
        self.sizes.append(feeds[self.name].size)
        found = Executor(body, {}).run({**self.around, **feeds}, fetches)
        return [found[name] for name in fetches]

    def steady(self, net: NetDef, feeds: Mapping[str, Any], fetches: Sequence[str]) -> Optional[Steady]:
        return None

    def infer(self, net: NetDef, feeds: Mapping[str, TensorSpec], fetches: Sequence[str]) -> List[Optional[TensorSpec]]:
        raise AssertionError("the body runs")


@given(st.integers(0, 4), st.integers(0, 3), st.integers(-2, 1), st.booleans())
@settings(max_examples=40)
def test_a_loop_joins_parts_of_any_length(trips: int, first: int, axis: int, twice: bool) -> None:
    """Trip i joins i columns, or i rows, of X to what there is, and to another blob something of it twice."""
    x = np.arange(36, dtype=np.float32).reshape(6, 6)
    at = axis % 2
    parts = "part part" if twice else "part"
    body = net(
        "i go a b",
        "go a2 b2",
        op("ExpandDims", "i", "end", dims=[0]),
        op("Slice", "X zero end at", "part"),
        op("Concat", f"a {parts}", "a2 la", axis=axis),
        op("Concat", "b part", "b2 lb", axis=axis),
    )
    start = x[:first] if at == 0 else x[:, :first]
    feeds = {"M": np.array(trips), "X": x, "A": start, "zero": np.array([0]), "at": np.array([at])}
    a, b = run(feeds, "Y Z", OperatorDef.of("Loop", ["M", "", "A", "A"], ["Y", "Z"], domain="onnx", body=body))
    cut = [x[:i] if at == 0 else x[:, :i] for i in range(trips)]
    assert_same(a, np.concatenate([start, *(one for part in cut for one in [part] * (1 + twice))], at))
    assert_same(b, np.concatenate([start, *cut], at))


@given(st.integers(0, 4), st.integers(0, 2))
def test_a_scan_joins_what_each_step_gives(length: int, first: int) -> None:
    x = np.arange(length * 2, dtype=np.float32).reshape(length, 2)
    start = np.full((first, 2), 7, np.float32)
    body = net("a x", "a2 x", op("ExpandDims", "x", "row", dims=[0]), op("Concat", "a row", "a2 l", axis=0))
    y, s = run({"A": start, "X": x}, "Y s", op("Scan", "A X", "Y s", body=body, num_scan_inputs=1))
    assert_same(y, np.concatenate([start, x]))
    assert_same(s, x)


def test_no_trip_copies_what_there_is() -> None:
    x = np.ones((2, 3), np.float32)
    body = net("i go a", "go a2", op("Concat", "a X", "a2 l", axis=0))
    nets = Given("a", {"X": x})
    loop = OperatorDef.of("Loop", ["M", "", "A"], ["Y"], domain="onnx", body=body)
    (y,) = loop_reference(loop, nets, np.array(5), None, 2 * x)
    assert nets.sizes == [0] * 5
    assert_same(y, np.concatenate([2 * x, *[x] * 5]))
    nets = Given("a", {})
    steps = net("a r", "a2", op("Concat", "a r", "a2 l", axis=1))
    scan = op("Scan", "A X", "Y", body=steps, num_scan_inputs=1)
    (y,) = scan_reference(scan, nets, np.zeros((2, 1), np.float32), np.ones((3, 2, 1), np.float32))
    assert nets.sizes == [0] * 3
    assert y.tolist() == [[0, 1, 1, 1]] * 2


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([op("Concat", "a X", "a2 l", axis=0), op("Size", "a", "n")], id="the body asks for its size"),
        pytest.param([op("Concat", "a X", "a2 l", axis=0), op("Size", "a2", "n")], id="for its size behind the trip"),
        pytest.param([op("Concat", "a X", "a2 l", axis=0), op("Copy", "l", "n")], id="for the lengths of its parts"),
        pytest.param([op("Concat", "X a", "a2 l", axis=0), op("Size", "X", "n")], id="it grows at its beginning"),
        pytest.param([op("Concat", "a a", "a2 l", axis=0), op("Size", "X", "n")], id="it doubles"),
        pytest.param(
            [op("Concat", "a X", "b l", axis=0), op("Add", "b b", "a2"), op("Size", "X", "n")], id="it changes"
        ),
        pytest.param(
            [op("Concat", "a X", "a2 l", axis=0), op("Concat", "a X X", "a2 l", axis=0), op("Size", "X", "n")],
            id="its name has two meanings",
        ),
        pytest.param(
            [op("Copy", "X", "a"), op("Concat", "a X", "a2 l", axis=0), op("Size", "X", "n")],
            id="what it is given is written over",
        ),
    ],
)
def test_others_are_given_whole(ops: List[OperatorDef]) -> None:
    """The same as the body's operators, run one trip after the other."""
    x = np.arange(3, dtype=np.float32)
    body, a, sizes = net("i go a", "go a2 n", *ops), x[:2], []
    for _ in range(3):
        a, n = run({"a": a, "X": x}, "a2 n", *ops)
        sizes.append(n)
    loop = OperatorDef.of("Loop", ["M", "", "A"], ["Y", "n"], domain="onnx", body=body)
    y, n = run({"M": np.array(3), "A": x[:2], "X": x}, "Y n", loop)
    assert_same(y, a)
    assert_same(n, np.array(sizes))


def test_what_a_trip_was_given_may_be_a_result() -> None:
    body = net("i go a b", "go a2 a", op("Concat", "a X", "a2 l", axis=0))
    loop = OperatorDef.of("Loop", ["M", "", "A", "A"], ["Y", "Z"], domain="onnx", body=body)
    y, z = run({"M": np.array(3), "A": np.zeros(1, np.float32), "X": np.ones(2, np.float32)}, "Y Z", loop)
    assert y.tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert z.tolist() == [0, 1, 1, 1, 1]


def test_what_is_stacked_is_given_whole() -> None:
    x = np.ones((2, 3), np.float32)
    body = net("i go a", "go a2", op("Concat", "a X", "a2 l", axis=0, add_axis=1))
    loop = OperatorDef.of("Loop", ["M", "", "A"], ["Y"], domain="onnx", body=body)
    (y,) = run({"M": np.array(1), "A": 2 * x, "X": x}, "Y", loop)
    assert_same(y, np.stack([2 * x, x]))


def test_a_net_inside_the_body_sees_all_of_it() -> None:
    branch = {"then_net": net("", "n", op("Size", "a", "n")), "else_net": net("", "m", op("Size", "X", "m"))}
    body = net("i go a", "go a2 s", op("If", "b", "s", **branch), op("Concat", "a X", "a2 l", axis=0))
    loop = OperatorDef.of("Loop", ["M", "", "A"], ["Y", "s"], domain="onnx", body=body)
    feeds = {"M": np.array(3), "A": np.zeros(1, np.float32), "X": np.ones(2, np.float32), "b": np.array(True)}
    y, s = run(feeds, "Y s", loop)
    assert y.tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert s.reshape(-1).tolist() == [1, 3, 5]


def test_refuses_parts_that_do_not_fit() -> None:
    body = net("i go a", "go a2", op("Concat", "a X", "a2 l", axis=0))
    loop = OperatorDef.of("Loop", ["M", "", "A"], ["Y"], domain="onnx", body=body)
    feeds = {"M": np.array(2), "A": np.zeros((0, 2), np.float32), "X": np.zeros((1, 3), np.float32)}
    with pytest.raises(OperatorError, match="the same dimensions except 0"):
        run(feeds, "Y", loop)
