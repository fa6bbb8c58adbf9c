"""Answers many inputs one after the other: prints each result as it comes, skips what is damaged, writes files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Set

import numpy as np

from runtime_arm.app.answer import Answer, Options
from runtime_arm.app.model import Model
from runtime_arm.app.outputs import plain
from runtime_arm.app.sources import Item
from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, ResultError, UsageError
from runtime_arm.files import one_line_errors
from runtime_arm.imports import needed_for
from runtime_arm.records import NamedTuple
from runtime_arm.results.classes import Classes
from runtime_arm.results.vectors import Tensors, described

if TYPE_CHECKING:
    from runtime_arm.app.result_files import Sink

LISTED = 20  # skipped inputs that are named at the end
_QUICK = 1  # how hard PNG is compressed: a tenth larger in a third of the time


class Record(NamedTuple):
    """One input and the net's answer; several answers if it is an array that holds a batch."""

    name: str
    answers: List[Answer]

    def outputs(self) -> Dict[str, Any]:
        """The outputs of the input as a whole."""
        if len(self.answers) == 1:
            return {name: plain(value) for name, value in self.answers[0].outputs.items()}
        names = self.answers[0].outputs
        return {name: np.concatenate([plain(one.outputs[name]) for one in self.answers]) for name in names}

    def to_dict(self) -> Dict[str, Any]:
        """The record as JSON: the result (of a batch, the results), the outputs' shapes and ranges, and for classes
        the best of them under "top"."""
        results = [answer.result.to_dict() for answer in self.answers]
        told: Dict[str, Any] = {"result": results[0]} if len(results) == 1 else {"results": results}
        outputs = {name: described(value) for name, value in self.outputs().items()}
        return {"input": self.name, **told, "outputs": outputs, "top": self._top()}

    def _top(self) -> List[Dict[str, Any]]:
        found = []
        for item, answer in enumerate(self.answers):
            number = {"item": item} if len(self.answers) > 1 else {}
            for one in answer.result if isinstance(answer.result, Classes) else ():
                label = str(one.index) if one.label is None else one.label
                found.append({**number, "number": one.index, "label": label, "score": one.score})
        return found

    def lines(self) -> List[str]:
        """The record for people."""
        told = [self.name]
        for item, answer in enumerate(self.answers):
            mark = f"  [{item}]" if len(self.answers) > 1 else ""
            told += [f"{mark}  {line}" for line in answer.result.lines()]
        return told


class Tally(NamedTuple):
    """How many inputs were answered, which were skipped and why, and whether an output was not finite."""

    answered: int
    skipped: List[str]
    dropped: int
    bad: bool


def answer_all(
    model: Model,
    items: Iterable[Item],
    options: Options,
    show: Callable[[Record], None],
    *,
    output: Optional[str] = None,
    draw: Optional[str] = None,
    alone: bool = False,
) -> Tally:
    """Answers each input, shows its record, and lets go of it.

    output: a file .npz, .jsonl or .csv of all results. draw: a folder for pictures with the results drawn over them.
    alone: there is one input, whose mistake ends it all.
    UsageError and MissingDependency, which all inputs share, end it at once.
    """
    skipped: List[str] = []
    answered = dropped = 0
    bad = False
    taken: Set[str] = set()
    last: Optional[Record] = None  # the only one is shown when the files are written
    with ExitStack() as stack:
        sink = stack.enter_context(_sink_of(output)) if output else None
        if draw:
            with one_line_errors(draw):
                os.makedirs(draw, exist_ok=True)
        for item in items:
            try:
                if item.error is not None:
                    raise item.error
                record = Record(item.name, model.answers(item.value, options))
            except (UsageError, MissingDependency):
                raise
            except ArmnetError as error:
                bad = bad or isinstance(error, ResultError)
                if alone and not isinstance(error, ResultError):
                    raise
                dropped += 1
                if len(skipped) < LISTED:
                    skipped.append(_told(item.name, error))
                continue
            answered += 1
            bad = bad or any(_holds_nan(one) for one in record.answers)
            if alone:
                last = record
            else:
                show(record)
            if sink is not None:
                sink.write(record.name, [one.result for one in record.answers], record.outputs())
            if draw:
                _draw(record, draw, taken)
    if last is not None:
        show(last)
    return Tally(answered, skipped, dropped, bad)


def _told(name: str, error: ArmnetError) -> str:
    text = str(error)
    return text if text.startswith(name) else f"{name}: {text}"


def _holds_nan(answer: Answer) -> bool:
    if not isinstance(answer.result, Tensors):
        return False
    return any(
        value.dtype.kind == "f" and not np.isfinite(value).all() for value in map(plain, answer.outputs.values())
    )


def _draw(record: Record, folder: str, taken: Set[str]) -> None:
    """Writes a picture into the folder of the others, named like its input; ``taken`` holds the names used so far."""
    with needed_for("drawing"):
        import PIL  # noqa: F401
    for item, answer in enumerate(record.answers):
        if answer.picture is None and answer.result.kind not in ("image", "depth", "mask"):
            raise FeedError(f"{record.name}: --draw draws over pictures, and this is none")
        stem = os.path.basename(record.name).replace("#", "_") or "picture"
        number = f"_{item}" if len(record.answers) > 1 else ""
        name = _free(f"{os.path.splitext(stem)[0]}{_frame_of(stem)}{number}", taken)
        target = os.path.join(folder, f"{name}.png")
        try:
            answer.result.draw(answer.picture).save(target, compress_level=_QUICK)
        except OSError as error:
            raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error


def _free(name: str, taken: Set[str]) -> str:
    """The name, with a number at its end if another input had it before."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    taken.add(free)
    return free


def _frame_of(stem: str) -> str:
    """``_12`` for the 13th frame of a video, whose input is called ``clip.mp4#12``."""
    suffix = os.path.splitext(stem)[1]
    return f"_{suffix.rpartition('_')[2]}" if "_" in suffix else ""


def _sink_of(path: str) -> Sink:
    from runtime_arm.app.result_files import sink_of  # one answer that is only shown does without

    return sink_of(path)
