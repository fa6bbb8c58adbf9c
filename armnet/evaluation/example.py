"""Example, Data and Measure: examples, data sets, and what counts the answers."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

from runtime_arm.files import AnyPath

Finding = Dict[str, Any]  # what of an answer is kept: plain JSON, see ``findings.py``


class Example(NamedTuple):
    """An input whose answer is known.

    value: what ``Model.answers`` takes: a path, pixels, {input: array}. truth: what the measure of its data compares.
    """

    name: str
    value: Any
    truth: Any


class Fault(NamedTuple):
    """An answer that is wrong: how badly (the worst first), what is true, and what the model says."""

    weight: float
    truth: str
    said: str


class Scores(NamedTuple):
    """What a measure found.

    metrics: numbers from 0 to 1 by name, the most important first. rows: a mapping for each class, all with the same
    keys. confusion: the names of classes and, for each true class, how often each was the answer (n, n).
    """

    metrics: Dict[str, float]
    rows: List[Dict[str, Any]]
    confusion: Optional[Tuple[List[str], List[List[int]]]] = None


class Measure(Protocol):
    """Counts answers. kinds: the kinds of results that it can count; threshold: the lowest score that is kept."""

    kinds: Tuple[str, ...]
    threshold: Optional[float]

    def scores(self, answered: Sequence[Tuple[Example, Finding]]) -> Scores:
        """The scores of the answers."""

    def problem(self, example: Example, finding: Finding) -> Optional[str]:
        """Why an answer cannot be compared with its truth, None if it can."""

    def fault(self, example: Example, finding: Finding) -> Optional[Fault]:
        """What is wrong with an answer, None if it is right."""

    def drawn(self, example: Example, finding: Finding) -> Optional[Mapping[str, Any]]:
        """Pillow pictures by what they show, of the truth and the answer; None if there is nothing to show."""


class Data(NamedTuple):
    """Examples, their measure, a text that changes whenever they do, and what they are, for people."""

    examples: Sequence[Example]
    measure: Measure
    fingerprint: str
    what: str


def stamp(path: AnyPath) -> str:
    """A text that changes whenever a file does."""
    facts = os.stat(path)
    return f"{os.path.abspath(path)} {facts.st_size} {facts.st_mtime_ns}"
