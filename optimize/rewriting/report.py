"""What an optimisation did, step by step, and what it refused to do, with the reasons."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.netdef.text import format_operator

Progress = Callable[[str, int, int], None]  # what is being done, how many are done, of how many


def quiet(what: str, done: int, total: int) -> None:
    """Ignores progress."""


class Step(NamedTuple):
    """One rewrite that was made: operators before and after as text, and what happened to weights."""

    number: int
    pass_name: str
    before: Sequence[str]
    after: Sequence[str]
    notes: Sequence[str]

    def __str__(self) -> str:
        lines = [
            f"step {self.number}: {self.pass_name}",
            *(f"  - {line}" for line in self.before),
            *(f"  + {line}" for line in self.after),
            *(f"    {note}" for note in self.notes),
        ]
        return "\n".join(lines)


class Refused(NamedTuple):
    """One rewrite that a pass considered and refused."""

    pass_name: str
    operators: Sequence[str]
    reason: str

    def __str__(self) -> str:
        return f"{self.pass_name} refused {'; '.join(self.operators)}: {self.reason}"


class EngineChoice(NamedTuple):
    """The engine that runs an operator, and the other engines that could.

    tuned: the fastest engine as measured, by number of threads. options: the engines that support the operator; for
    each, the time it expects in multiplies (None if it does not say), the factor by which it enlarges rounding errors,
    and the seconds that were measured, by number of threads. refused: the other engines, with their reasons.
    """

    operator: str
    engine: str
    tuned: Mapping[int, str]
    options: Mapping[str, Mapping[str, Any]]
    refused: Mapping[str, str]

    def __str__(self) -> str:
        tuned = [f"; {engine} with threads={threads}" for threads, engine in self.tuned.items()]
        lines = [f"{self.operator}: {self.engine}{''.join(tuned)}"]
        for engine, option in self.options.items():
            facts = [f"{option['multiplies']:.3g} multiplies' time"] if option["multiplies"] is not None else []
            facts += [f"error x{option['error']:.3g}"] if option["error"] != 1 else []
            facts += [f"{taken * 1e3:.3f} ms with threads={threads}" for threads, taken in option["seconds"].items()]
            lines.append(f"  {engine} could: {', '.join(facts) or 'it does not say what it costs'}")
        return "\n".join([*lines, *(f"  {engine} refused: {why}" for engine, why in self.refused.items())])


@dataclass
class Report:
    """Collects steps, refusals, engines and warnings. ``str(report)`` is what ``armnet optimize --explain`` prints.

    error: the error of the outputs relative to their largest magnitude, if it was measured.

    Examples:
        >>> import armnet
        >>> report = armnet.Report()
        >>> fast = armnet.optimize(armnet.export("demo/digits.onnx"), report=report)
        >>> report.steps[0].pass_name
        'flatten_fc'
    """

    steps: List[Step] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    engines: List[EngineChoice] = field(default_factory=list)
    error: Optional[float] = None
    _refused: Dict[Tuple[str, str], List[Refused]] = field(default_factory=dict)
    _scope: str = ""

    @property
    def refused(self) -> List[Refused]:
        """What each pass refused when it last ran."""
        return [one for refusals in self._refused.values() for one in refusals]

    def fired(
        self, name: str, before: Sequence[OperatorDef], after: Sequence[OperatorDef], notes: Sequence[str]
    ) -> None:
        """A pass made one step."""
        notes = [*notes, *([f"inside {self._scope}"] if self._scope else [])]
        self.steps.append(Step(len(self.steps) + 1, name, texts(before), texts(after), notes))

    @contextmanager
    def inside(self, scope: str) -> Iterator[None]:
        """Within the block, steps and refusals are those of a net inside the net."""
        outer, self._scope = self._scope, f"{self._scope} {scope}".strip()
        try:
            yield
        finally:
            self._scope = outer

    def begin(self, name: str) -> None:
        """A pass starts to look at the whole net: forget what it refused before."""
        self._refused[self._scope, name] = []

    def refuse(self, name: str, operators: Sequence[OperatorDef], reason: str) -> None:
        """A pass refused a rewrite. Refusals that several of its rules repeat are kept once."""
        one = Refused(name, [op.signature() for op in operators], reason)
        known = self._refused[self._scope, name]
        if one not in known:
            known.append(one)

    def steps_by_pass(self) -> Dict[str, int]:
        """How often each pass fired."""
        return dict(Counter(step.pass_name for step in self.steps))

    def __str__(self) -> str:
        return "\n".join(
            [
                *map(str, (*self.steps, *self.refused, *self.engines)),
                *self.notes,
                *(f"warning: {text}" for text in self.warnings),
            ]
        )


@dataclass(frozen=True)
class Recorder:
    """An optimisation under way.

    report: collects its steps. stop_after: how many steps it may make in all. progress: is told of it.
    """

    report: Report = field(default_factory=Report)
    stop_after: Optional[int] = None
    progress: Progress = quiet

    @property
    def may_step(self) -> bool:
        """Whether another step may be made."""
        return self.stop_after is None or len(self.report.steps) < self.stop_after


def texts(ops: Sequence[OperatorDef]) -> List[str]:
    """One line for each operator, as in a net's text form."""
    return [format_operator(op) for op in ops]


def operator_counts(net: NetDef) -> Dict[str, int]:
    """How many operators of each type the net has, the most frequent first."""
    return dict(Counter(op.full_type for op in net.op).most_common())
