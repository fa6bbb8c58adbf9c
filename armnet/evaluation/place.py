"""Places that answer examples: this process, with armnet or with another runtime."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Protocol, Sequence, Tuple

from armnet.evaluation.example import Example, Finding
from armnet.evaluation.findings import finding_of
from runtime_arm.app.answer import Answer, Options, Outputs
from runtime_arm.app.model import Model
from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, UsageError
from runtime_arm.pair.pair import Pair

Answered = Iterator[Tuple[int, Finding]]
Keep = Callable[[Answer], Finding]  # what is kept of an answer


def result_of(answer: Answer) -> Finding:
    """What evaluations keep."""
    return finding_of(answer.result)


class Place(Protocol):
    """Where examples are answered. name: for people, and for the journal."""

    name: str

    def findings(self, examples: Sequence[Example], todo: Sequence[int]) -> Answered:
        """The number and the finding of each example, in any order, as they become available."""


class LocalPlace:
    """This process."""

    def __init__(self, model: Model, options: Options, name: str = "here", keep: Keep = result_of):
        self.name = name
        self._model, self._options, self._keep = model, options, keep

    def findings(self, examples: Sequence[Example], todo: Sequence[int]) -> Answered:
        """The findings, one after the other, in order."""
        for number in todo:
            yield number, answered(lambda number=number: self._ask(examples[number].value), self._keep)  # type: ignore[misc]

    def _ask(self, value: Any) -> Answer:
        answers = self._model.answers(value, self._options)
        if len(answers) != 1:
            raise FeedError(f"one example gives {len(answers)} answers")
        return answers[0]


def answered(ask: Callable[[], Answer], keep: Keep = result_of) -> Finding:
    """The finding of an answer; that of an input that cannot be read or answered is its error.

    Mistakes that all examples share, a UsageError or a MissingDependency, are raised.
    """
    try:
        return keep(ask())
    except (UsageError, MissingDependency):
        raise
    except ArmnetError as error:
        return {"error": str(error)}


def by_another_runtime(
    model: Model,
    infer: Callable[[Mapping[str, Any]], Outputs],
    name: str,
    options: Options,
    keep: Keep = result_of,
) -> LocalPlace:
    """This process, with another runtime instead of armnet's: inputs are prepared and outputs are read in the same
    way.
    """
    if model.following:
        raise UsageError("another runtime runs one net; this model has several")
    other = Model(self_contained(model), threads=1, notice=lambda text: None)
    other.infer = infer
    return LocalPlace(other, options, name, keep)


def self_contained(model: Model) -> Pair:
    """The model's pair with everything that the user said about it: the meaning of its outputs, labels and
    preprocessing.
    """
    told = {"result": model.entry, "preprocessing": model.rule}
    if model.labels is not None:
        told["labels"] = model.labels  # type: ignore[assignment]
    return model.pair.replace(meta={**model.pair.meta, **told})
