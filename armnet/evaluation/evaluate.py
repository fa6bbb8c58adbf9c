"""Evaluates a model on examples whose answers are known."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from armnet.evaluation.data import data_of
from armnet.evaluation.example import Data, Example, Fault, Finding, Scores
from armnet.evaluation.findings import differ
from armnet.evaluation.journal import Journal, fingerprint
from armnet.evaluation.place import LocalPlace, Place, self_contained
from runtime_arm.app.answer import Options
from runtime_arm.app.model import Model
from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm.files import AnyPath
    from runtime_arm.pair.pair import Pair

Report = Callable[[str, int, int], None]


class Result(NamedTuple):
    """The answers of one place. findings: by the number of the example. skipped: for examples without an answer, the
    reason. differing: the numbers of examples that the first place answers otherwise. seconds: for the examples that
    were answered now; an earlier run had answered ``answered_before``.
    """

    place: str
    scores: Scores
    findings: Mapping[int, Finding]
    skipped: Mapping[int, str]
    differing: Sequence[int]
    seconds: float
    answered_before: int

    @property
    def metrics(self) -> Dict[str, float]:
        """The numbers, from 0 to 1."""
        return self.scores.metrics


class Evaluation(NamedTuple):
    """What an evaluation found: the data, and a result for each place, the first of them that with armnet itself."""

    data: Data
    results: List[Result]

    @property
    def metrics(self) -> Dict[str, float]:
        """The numbers of the first place: ``metrics["top1"]``."""
        return self.results[0].metrics

    def faults(self, most: Optional[int] = None) -> List[tuple[Example, Finding, Fault]]:
        """What the first place answered wrongly, the worst first."""
        found = []
        for number, finding in sorted(self.results[0].findings.items()):
            fault = self.data.measure.fault(self.data.examples[number], finding)
            if fault is not None:
                found.append((self.data.examples[number], finding, fault))
        return sorted(found, key=lambda one: -one[2].weight)[:most]


def evaluate(
    model: Union[Model, Pair, AnyPath, Sequence[AnyPath]],
    data: Union[Data, AnyPath],
    *,
    most: Optional[int] = None,
    places: Optional[Sequence[Place]] = None,
    fresh: bool = False,
    progress: Report = lambda text, done, total: None,
    notice: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Measures the accuracy of a model.

    model: a Model, or what ``armnet.open`` takes. data: a folder with a folder for each class, an .npz with images and
    labels, COCO's annotations, a folder with images/ and masks/, or a list of files with what they hold. most: take at
    most this number of examples, spread evenly. places: where they are answered (default: here); all are compared with
    the first. fresh: ignore the answers that an interrupted evaluation left in its journal. progress: called with what
    is being done, how many are done, and of how many. notice: called with what was assumed. UsageError if data and
    model do not fit, or nothing could be answered.

    Examples:
        >>> import armnet
        >>> result = armnet.evaluate("demo/digits.onnx", "demo/held_back.npz")
        >>> f"{result.metrics['top1']:.2%}"
        '99.72%'
    """
    from armnet.opening import open as open_model

    with ExitStack() as stack:
        opened = model if isinstance(model, Model) else stack.enter_context(open_model(model, notice=notice))
        found = data if isinstance(data, Data) else data_of(data, opened, notice)
        if opened.decoder.kind not in found.measure.kinds:
            raise UsageError(
                f"the data holds {' or '.join(found.measure.kinds)}, but the model gives {opened.decoder.kind}; "
                "--task says what its outputs mean"
            )
        chosen = places or [LocalPlace(opened, options_for(found))]
        todo = _spread(len(found.examples), most)
        identity = fingerprint(self_contained(opened))
        results: List[Result] = []
        for place in chosen:
            journal = Journal([identity, found.fingerprint, place.name, str(found.measure.threshold)], fresh)
            results.append(_result(place, found, todo, journal, results, progress, notice))
    for place in chosen:
        Journal([identity, found.fingerprint, place.name, str(found.measure.threshold)]).remove()
    return Evaluation(found, results)


def options_for(data: Data) -> Options:
    """The options by which answers are read for the data's measure."""
    return Options(data.measure.threshold)


def _spread(count: int, most: Optional[int]) -> List[int]:
    if most is None or most >= count:
        return list(range(count))
    if most < 1:
        raise UsageError(f"at least one example is needed, got {most}")
    return sorted({place * count // most for place in range(most)})


def _result(
    place: Place,
    data: Data,
    numbers: Sequence[int],
    journal: Journal,
    before: Sequence[Result],
    progress: Report,
    notice: Callable[[str], None],
) -> Result:
    known = [number for number in numbers if number in journal.known]
    todo = [number for number in numbers if number not in journal.known]
    if known:
        notice(
            f"{place.name}: {len(known)} of {len(numbers)} examples were answered by an earlier run, which is continued"
        )
    start = time.monotonic()
    told = False
    try:
        for done, (number, finding) in enumerate(place.findings(data.examples, todo) if todo else (), 1):
            journal.write(number, finding)
            if journal.lost and not told:
                told = True
                notice(
                    f"answers are not kept, so the evaluation cannot be continued if it is interrupted: {journal.lost}"
                )
            rate = done / max(time.monotonic() - start, 1e-9)
            left = (len(todo) - done) / rate
            progress(f"{place.name}: {rate:.1f} a second, {left:.0f} s left", len(known) + done, len(numbers))
    except KeyboardInterrupt:
        if not journal.lost:
            notice(
                f"{place.name}: {len(journal.known)} of {len(numbers)} examples are answered; start again to continue"
            )
        raise
    finally:
        journal.close()
    seconds = time.monotonic() - start
    findings: Dict[int, Finding] = {}
    skipped: Dict[int, str] = {}
    for number in numbers:
        finding = journal.known[number]
        problem = finding.get("error") or data.measure.problem(data.examples[number], finding)
        if problem is None:
            findings[number] = finding
        else:
            skipped[number] = problem
    if not findings:
        first = next(iter(skipped.items()))
        raise UsageError(f"{place.name}: no example could be answered; {data.examples[first[0]].name}: {first[1]}")
    scores = data.measure.scores([(data.examples[number], finding) for number, finding in findings.items()])
    differing: List[int] = []
    if before:
        others = before[0].findings
        differing = [n for n in numbers if n in findings and n in others and differ(findings[n], others[n])]
        both = sum(number in others for number in findings)
        scores.metrics["agreement"] = 1 - len(differing) / both if both else 0.0
    return Result(place.name, scores, findings, skipped, differing, seconds, len(known))
