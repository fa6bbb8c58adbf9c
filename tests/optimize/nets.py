"""Nets written as text, the result of a pass on them, and random nets in which a pass finds something to do."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
from hypothesis import given, settings

from device_tests.suite.tolerance import assert_close, assert_network_close
from optimize.rewriting.program import Program
from optimize.rewriting.report import Recorder, Report
from optimize.rewriting.rewrite import Pass, run_passes
from runtime_arm import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.support.random_nets import KINDS, Kind, RandomNet, random_nets

Arrays = Mapping[str, Any]
Shapes = Mapping[str, Sequence[Any]]
ENOUGH = 5  # a pass must change at least this many random nets, or else they test nothing


def pair_of(net: str, weights: Optional[Arrays] = None, shapes: Optional[Shapes] = None) -> Pair:
    """The pair of a net given as text. Inputs without weights are float32 and of ``shapes`` if listed there."""
    return pair_of_net(NetDef.from_text(net), weights or {}, shapes or {})


def pair_of_net(net: NetDef, weights: Arrays, shapes: Shapes) -> Pair:
    fills = tuple(fill(name, np.asarray(value)) for name, value in weights.items())
    inputs = [
        TensorInfo(name, tuple(shapes[name]) if name in shapes else None, "float32" if name in shapes else None)
        for name in net.external_input
        if name not in weights
    ]
    return Pair(NetDef("init", fills), net, tuple(inputs)).check()


def lines(text: str) -> List[str]:
    return [line.strip() for line in text.strip().splitlines()]


class Outcome:
    """The result of running passes on a net."""

    def __init__(self, before: Pair, passes: Sequence[Pass], stop_after: Optional[int] = None):
        self.before = before
        self.report = Report()
        self.program = run_passes(Program.of(before), passes, Recorder(self.report, stop_after))
        self.after = self.program.pair(before)

    @property
    def text(self) -> List[str]:
        """The operators, one per line."""
        return lines(self.after.predict_net.replace(name="", external_input=(), external_output=()).to_text())

    @property
    def reasons(self) -> List[str]:
        return [refusal.reason for refusal in self.report.refused]

    def weight(self, name: str) -> np.ndarray:
        value = self.program.value(name)
        assert value is not None, name
        return np.asarray(value)


def applied(one: Pass, net: str, weights: Optional[Arrays] = None, shapes: Optional[Shapes] = None) -> Outcome:
    """The result of the pass on the net; a second run must find nothing to do."""
    outcome = Outcome(pair_of(net, weights, shapes), [one])
    again = Outcome(outcome.after, [one])
    assert not again.report.steps, again.report
    assert again.after == outcome.after
    return outcome


def refusals(one: Pass, net: str, weights: Optional[Arrays] = None, shapes: Optional[Shapes] = None) -> List[str]:
    """Why the pass leaves the net as it is."""
    outcome = applied(one, net, weights, shapes)
    assert not outcome.report.steps, outcome.report
    return outcome.reasons


def numbers(pair: Pair, feeds: Arrays) -> Dict[str, np.ndarray]:
    with Predictor(pair, threads=1) as predictor:
        return predictor.run(feeds)


def assert_same_numbers(before: Pair, after: Pair, feeds: Arrays, terms: int = 0, layers: int = 1) -> None:
    """Outputs have the same names, shapes and dtypes, and are equal; with ``terms``, both may round.

    terms: those of the longest sum that is rounded in another way; layers: how many such sums follow each other.
    """
    wanted, actual = numbers(before, feeds), numbers(after, feeds)
    assert list(wanted) == list(actual)
    for name, expected in wanted.items():
        assert (actual[name].dtype, actual[name].shape) == (expected.dtype, expected.shape)
        if terms == 0:
            np.testing.assert_array_equal(actual[name], expected, err_msg=name)
        else:
            largest = float(np.abs(expected).max(initial=1.0))
            both = 2.0 * layers  # each side rounds in each layer
            assert_close(actual[name], expected, terms=terms, magnitude=largest, amplification=both, what=name)


def assert_same_network(before: Pair, after: Pair, feeds: Arrays) -> None:
    """Outputs have the same names, and are those of one float network with many layers."""
    wanted, actual = numbers(before, feeds), numbers(after, feeds)
    assert list(wanted) == list(actual)
    for name, expected in wanted.items():
        assert_network_close(actual[name], expected, what=name)


def assert_keeps_numbers(
    passes: Sequence[Pass], kinds: Sequence[Kind] = (), *, terms: int = 0, layers: int = 1, examples: int = 60
) -> None:
    """Random nets, mostly with these ``kinds`` of operators, compute the same before and after the passes.

    terms, layers: as for ``assert_same_numbers``.
    """
    changed = 0

    @settings(max_examples=examples, derandomize=True)
    @given(random_nets(kinds=[*KINDS, *list(kinds) * (2 * len(KINDS) // max(len(kinds), 1))]))
    def check(drawn: RandomNet) -> None:
        nonlocal changed
        outcome = Outcome(pair_of_net(drawn.net, drawn.weights, {"x": drawn.shape}), passes)
        changed += bool(outcome.report.steps)
        assert_same_numbers(outcome.before, outcome.after, drawn.feed(), terms, layers)
        again = Outcome(outcome.after, passes)
        assert again.after == outcome.after, again.report

    check()
    assert changed >= ENOUGH, f"only {changed} random nets gave the passes anything to do"
