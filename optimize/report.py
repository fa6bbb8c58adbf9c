"""What an optimisation did, step by step, and what it left alone, with the reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Dict, List, NamedTuple, Sequence

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.netdef.text import format_operator


class Step(NamedTuple):
    """One rewrite that fired: operators before and after as text, and what happened to weights."""

    number: int
    pass_name: str
    before: Sequence[str]
    after: Sequence[str]
    notes: Sequence[str]

    def __str__(self) -> str:
        lines = [f"step {self.number}: {self.pass_name}", *(f"  - {line}" for line in self.before),
                 *(f"  + {line}" for line in self.after), *(f"    {note}" for note in self.notes)]
        return "\n".join(lines)


class Refused(NamedTuple):
    """One rewrite that a pass considered and refused."""

    pass_name: str
    operators: Sequence[str]
    reason: str

    def __str__(self) -> str:
        return f"{self.pass_name} refused {'; '.join(self.operators)}: {self.reason}"


@dataclass
class Report:
    """Collects steps, refusals and warnings. ``str`` is what ``armnet optimize --explain`` prints."""

    steps: List[Step] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    _refused: Dict[str, List[Refused]] = field(default_factory=dict)

    @property
    def refused(self) -> List[Refused]:
        """What passes refused when they ran last."""
        return [one for refusals in self._refused.values() for one in refusals]

    def fired(self, name: str, before: Sequence[OperatorDef], after: Sequence[OperatorDef],
              notes: Sequence[str]) -> None:
        """A pass made one step."""
        self.steps.append(Step(len(self.steps) + 1, name, texts(before), texts(after), notes))

    def begin(self, name: str) -> None:
        """A pass looks at the whole net again: what it refused before is forgotten."""
        self._refused[name] = []

    def refuse(self, name: str, operators: Sequence[OperatorDef], reason: str) -> None:
        """A pass refused a rewrite; said once, however many of its rules come to it."""
        one = Refused(name, [op.signature() for op in operators], reason)
        if one not in self._refused[name]:
            self._refused[name].append(one)

    def steps_by_pass(self) -> Dict[str, int]:
        """How often each pass fired."""
        return dict(Counter(step.pass_name for step in self.steps))

    def __str__(self) -> str:
        lines = [*map(str, self.steps), *map(str, self.refused), *(f"warning: {text}" for text in self.warnings)]
        return "\n".join(lines)


def texts(ops: Sequence[OperatorDef]) -> List[str]:
    """One line an operator, as in a net's text form."""
    return [format_operator(op) for op in ops]


def operator_counts(net: NetDef) -> Dict[str, int]:
    """How many operators of each type the net has, the most frequent first."""
    return dict(Counter(op.full_type for op in net.op).most_common())
