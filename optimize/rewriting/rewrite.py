"""The driver of the passes: it runs their rules and checks what every rewrite does.

A rule consists of ``find``, which yields matches, and ``rewrite``, which returns what replaces the matched operators or
raises ``Refusal`` with the reason. Most rules are made of patterns (see ``patterns.py``). The driver checks what must
hold for all rules: no other operator reads a blob that would vanish, no operator involved reads or writes a blob that
is written twice, and the new operators accept their inputs and write blobs of the same shapes as before. A pass is a
name and its rules; it ends when none of them fires any more.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.report import Recorder, Report
from optimize.rewriting.shapes import LARGEST_VALUE, SpecsByName
from runtime_arm.errors import ArmnetError
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import DataDependent
from runtime_arm.registry.shape_inference import infer_operator

MOST_SWEEPS = 100  # over the net, by one pass
MOST_REWRITES = 10  # of one rule in one sweep, for each operator of the net
MOST_ROUNDS = 20  # over all passes


class Refusal(Exception):
    """Why a rule leaves operators as they are."""


class BrokenPass(RuntimeError):
    """A pass spoiled the net or does not end: a bug of ours."""


class Rule(NamedTuple):
    """``find(program, start)`` yields matches anchored at operators from place ``start`` on, in the net's order."""

    find: Callable[[Program, int], Iterator[Match]]
    rewrite: Callable[[Program, Match], Rewrite]


class Pass(NamedTuple):
    """A named list of rules, each applied wherever it matches, until none does."""

    name: str
    rules: Tuple[Rule, ...]


def run_passes(program: Program, passes: Sequence[Pass], recorder: Recorder) -> Program:
    """Runs the passes in turn, again and again, until none of them fires or no more steps may be made.

    BrokenPass, naming the pass, if one of them spoils the program.
    """
    made = recorder.report.steps
    settled: Dict[Pass, Program] = {}  # by pass: the program in which it finds nothing more to do
    for _ in range(MOST_ROUNDS):
        steps = len(made)
        for number, one in enumerate(passes):
            recorder.progress(f"pass {one.name}", number, len(passes))
            if settled.get(one) is not program:
                program = settled[one] = _checked(one, program, _run_pass(one, program, recorder))
        if len(made) == steps:
            return program
    culprits = ", ".join(sorted({step.pass_name for step in made[steps:]}))
    raise BrokenPass(f"no end after {MOST_ROUNDS} rounds; still firing: {culprits}")


def _run_pass(one: Pass, program: Program, recorder: Recorder) -> Program:
    report = recorder.report
    for _ in range(MOST_SWEEPS):
        report.begin(one.name)
        steps = len(report.steps)
        for rule in one.rules:
            program = _sweep(one.name, rule, program, recorder)
        if len(report.steps) == steps:
            return program
    raise BrokenPass(f"pass {one.name}: no end after {MOST_SWEEPS} sweeps over the net")


def _sweep(name: str, rule: Rule, program: Program, recorder: Recorder) -> Program:
    """Apply a rule from the first operator to the last."""
    report = recorder.report
    start, steps, most = 0, len(report.steps), MOST_REWRITES * (1 + len(program.net.op))
    while recorder.may_step:
        if len(report.steps) - steps > most:
            raise BrokenPass(f"pass {name}: no end after {most} rewrites in one sweep over the net")
        for match in rule.find(program, start):
            result = _attempt(name, rule, program, match, report)
            if result is not None:
                program = result
                start = min(match.places, default=0)
                break
        else:
            break
    return program


def _attempt(name: str, rule: Rule, program: Program, match: Match, report: Report) -> Optional[Program]:
    """The program after this rewrite; None, with the reason in the report, if it is refused."""
    reason = program.why_fixed(match)
    if reason is None:
        try:
            rewrite = rule.rewrite(program, match)
            known = program.known_specs
            _check_renames(name, rewrite, known)
            result = program.rewritten(match, rewrite)
            _check_shapes(name, rewrite, known, result.known_specs)
        except Refusal as refusal:
            reason = str(refusal)
        except ArmnetError as error:  # an operator that could not run either
            reason = f"{type(error).__name__}: {error}"
        else:
            report.fired(name, program.operators(match), rewrite.operators, _notes(rewrite))
            return result
    report.refuse(name, program.operators(match), reason)
    return None


def _check_renames(name: str, rewrite: Rewrite, known: Sequence[SpecsByName]) -> None:
    """BrokenPass if two blobs of different shapes or dtypes would share a name."""
    for specs in known:
        for old, new in rewrite.rename.items():
            one, other = specs.get(old), specs.get(new)
            if one is not None and other is not None and one != other:
                raise BrokenPass(f"pass {name} gave {old!r}, {one}, the name of {new!r}, {other}")


def _check_shapes(name: str, rewrite: Rewrite, before: Sequence[SpecsByName], after: Sequence[SpecsByName]) -> None:
    """BrokenPass if new operators write blobs of other shapes than before; ArmnetError if one refuses its inputs."""
    for known, specs in zip(before, after):
        for op in rewrite.operators:
            inputs = [specs.get(rewrite.rename.get(blob, blob)) for blob in op.input]
            if any(blob and spec is None for blob, spec in zip(op.input, inputs)):
                continue
            with suppress(DataDependent):
                for blob, spec in zip(op.output, infer_operator(op, inputs, LARGEST_VALUE)[1]):
                    had = known.get(blob)
                    if had is not None and (had.shape, had.dtype) != (spec.shape, spec.dtype):
                        raise BrokenPass(f"pass {name} changed {blob!r} from {had} to {spec}")


def _notes(rewrite: Rewrite) -> List[str]:
    added = [
        f"new weight {name} {value.dtype.name}{list(value.shape)}"
        for name, value in rewrite.weights.items()
        if value is not None
    ]
    removed = [f"weight {name} removed" for name, value in rewrite.weights.items() if value is None]
    return [*added, *removed, *(f"{old} is now {new}" for old, new in rewrite.rename.items())]


def _checked(one: Pass, before: Program, after: Program) -> Program:
    """``after``; BrokenPass if the pass spoiled the net, its inputs or its outputs."""
    if after is before:
        return before
    try:
        after.net.check()
    except ArmnetError as error:
        raise BrokenPass(f"pass {one.name} broke the net: {error}") from error
    for what, old, new in (
        ("inputs", _inputs(before), _inputs(after)),
        ("outputs", before.net.external_output, after.net.external_output),
    ):
        if old != new:
            raise BrokenPass(f"pass {one.name} changed the {what} from {', '.join(old)} to {', '.join(new)}")
    for name in before.net.external_output:
        for had, has in zip(before.specs(name), after.specs(name)):
            if had is not None and had != has:
                raise BrokenPass(f"pass {one.name} changed output {name!r} from {had} to {has}")
    return after


def _inputs(program: Program) -> Sequence[str]:
    return [name for name in program.net.external_input if name not in program.weights]


def merged(program: Program, gone: str, kept: str) -> Mapping[str, str]:
    """The renaming that merges two blobs of equal content, if the operator that writes ``gone`` is removed.

    Readers of ``gone`` then read ``kept``. If ``gone`` must keep its name, ``kept`` takes that name instead. Refusal if
    both must keep theirs.
    """
    reason = program.why_named(gone)
    if reason is None:
        return {gone: kept}
    if program.why_named(kept) is None and program.writer(kept) is not None:
        return {kept: gone}
    raise Refusal(reason)


def source(program: Program, name: str) -> Optional[OperatorDef]:
    """The operator that writes the blob."""
    place = program.writer(name)
    return None if place is None else program.net.op[place]
