"""A rewritten program knows as much as a new one made from the same net."""

from __future__ import annotations

from typing import Sequence, Tuple, Union

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize import pipeline
from optimize.rewriting import shapes as shapes_module
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.report import Recorder
from optimize.rewriting.rewrite import run_passes
from optimize.rewriting.single_assignment import names_in
from runtime_arm.netdef import Argument, NetDef, OperatorDef
from tests.optimize import kinds
from tests.optimize.nets import pair_of, pair_of_net
from tests.support.random_nets import KINDS, RandomNet, random_nets

FOLDING = [kinds.convolving, kinds.normalising, kinds.scaling, kinds.copying, kinds.repeating, kinds.of_constants]


@given(random_nets(kinds=[*KINDS, *FOLDING]), st.booleans())
def test_readers_and_writers_are_kept_up_to_date(drawn: RandomNet, branched: bool) -> None:
    net = with_branch(drawn.net) if branched else drawn.net
    before = Program.of(pair_of_net(net, drawn.weights, {"x": drawn.shape}))
    program = run_passes(before, pipeline.ALL, Recorder())
    fresh = Program(program.net, program.weights, [{"x": spec} for spec in before.specs("x")])
    known = names_in(before.net) | names_in(program.net)
    for name in sorted(known - {""}):
        assert program.writer(name) == fresh.writer(name)
        assert list(program.readers(name)) == list(fresh.readers(name))
        assert program.is_rewritten(name) == fresh.is_rewritten(name)
        assert program.why_kept(name) == fresh.why_kept(name)
        assert program.fresh(name) == fresh.fresh(name)
        assert shapes(program, name) == shapes(fresh, name)


def shapes(program: Program, name: str) -> Sequence[object]:
    return [None if spec is None else (spec.shape, spec.dtype) for spec in program.specs(name)]


def with_branch(net: NetDef) -> NetDef:
    """The net with an added operator whose branches read one of the blobs."""
    blob = net.op[0].output[0]
    branch = NetDef("branch", (OperatorDef("Copy", (blob,), ("copied",)),), (), ("copied",))
    args = tuple(Argument.of(name, branch) for name in ("then_net", "else_net"))
    return net.replace(op=(*net.op, OperatorDef("If", ("x",), ("copied",), args)))


@pytest.mark.parametrize(("shape", "times"), [((2, 3), 1), (("n", 3), 4)])
def test_shapes_are_inferred_once_for_each_choice_of_sizes(
    monkeypatch: pytest.MonkeyPatch, shape: Tuple[Union[int, str], ...], times: int
) -> None:
    asked = []
    inferred = shapes_module._infer
    monkeypatch.setattr(shapes_module, "_infer", lambda op, inputs: asked.append(inputs) or inferred(op, inputs))
    program = Program.of(pair_of('net "": x -> y\n Relu(x) -> y', shapes={"x": shape}))
    assert program.specs("y") == program.specs("x")
    assert not program.inference_refusals
    assert len(asked) == times


def test_a_blob_stays_known_if_it_takes_the_place_of_one_that_is_not() -> None:
    program = Program.of(pair_of('net "": x -> x, y\n Copy(x) -> a\n Relu(a) -> y', shapes={"x": (2, 3)}))
    (spec,) = program.specs("x")
    unknown = Program(program.net, program.weights, [{"x": spec, "a": None}], new=program.net.op[:0])
    assert unknown.rewritten(Match((0,)), Rewrite(rename={"a": "x"})).specs("x") == [spec]


def test_content_that_follows_from_open_sizes_is_not_known() -> None:
    text = """
        net "": x, one, m -> y
        Shape(x) -> s
        Gather(s, one) -> size
        EQ(size, m) -> is_m
        Shape(x) -> last  axes=[1]
        Add(size, last) -> both
        Gather(s, m) -> z
        Copy(x) -> y"""
    weights = {"one": np.array(1), "m": np.array(0)}
    known = Program.of(pair_of(text, weights, {"x": ("n", 7)}))
    assert [int(np.ravel(known.content(name))[0]) for name in ("size", "last", "both")] == [7, 7, 14]
    assert [known.content(name) for name in ("z", "s", "x")] == [None] * 3
    is_open = Program.of(pair_of(text, weights, {"x": ("n", "m")}))
    assert [is_open.content(name) for name in ("size", "is_m", "last", "both")] == [None] * 4
    static = Program.of(pair_of(text, weights, {"x": (3, 7)}))
    assert [static.content(name) is None for name in ("s", "z", "is_m", "x")] == [False, False, False, True]


def test_an_integer_is_one_whole_number() -> None:
    weights = {"n": np.array([3]), "yes": np.array(True), "half": np.float32(1.5), "pair": np.array([1, 2])}
    program = Program.of(pair_of('net "": x, n, yes, half, pair -> y\n Copy(x) -> y', weights, {"x": (2,)}))
    assert [program.integer(name) for name in (*weights, "x")] == [3, 1, None, None, None]


def test_content_that_comes_from_blobs_written_twice_is_not_known() -> None:
    text = """
        net "": x, yes, zero -> y, s
        Shape(x) -> s  axes=[{}]
        If(yes) -> z  then_net={{
            net "then": -> q
            Copy(s) -> q
        }} else_net={{
            net "else": -> q
            Copy(zero) -> q
        }}
        Copy(s) -> t
        Gather(s, zero) -> size
        {}
        Copy(x) -> y"""
    for again, expected in (("Copy(t) -> u", 7), ("Shape(x) -> s  axes=[1]", None)):
        pair = pair_of(text.format(1, again), {"yes": np.array(True), "zero": np.array([0])}, {"x": ("n", 7)})
        assert Program.of(pair).integer("t") == expected
    pair = pair_of(text.format(0, again), {"yes": np.array(True), "zero": np.array([0])}, {"x": ("n", 7)})
    assert [Program.of(pair).integer(name) for name in ("t", "size")] == [None, None]
