"""Answers examples on a target: an emulated ARM machine, or a device over ssh."""

from __future__ import annotations

import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from armnet.evaluation import target_program
from armnet.evaluation.example import Example, Finding
from armnet.evaluation.place import Answered, Keep, answered, result_of, self_contained
from device_tests.host.suite_run import pair_files, runtime_files
from device_tests.host.targets.factory import target_of
from device_tests.host.targets.target import TIMEOUT, Target
from runtime_arm.app.answer import Answer, Options, Prepared
from runtime_arm.app.model import Model
from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, UsageError
from runtime_arm.netdef import Array

FEWEST, MOST = 16, 512  # examples that one program answers: at first, and at most
MOST_BYTES = 1 << 25  # of their inputs
QUICK, SLOW = 20.0, 60.0  # seconds: after a program that took less or more, the next gets twice or half as many
_PROGRAM = "answer.py"


class _Sent(NamedTuple):
    """An example that was sent: its arrays by name, and how they were prepared; None for a sound."""

    number: int
    arrays: Dict[str, Array]
    prepared: Optional[Prepared]


class OnTarget:
    """A target, on which the net runs. Pictures are prepared, and outputs are read, on this machine.

    name: as ``armnet device list`` has it. python: the program to run over ssh; timeout: seconds for one program.
    keep: what is kept of an answer. target: makes the target (default: that of the name).
    """

    def __init__(
        self,
        name: str,
        model: Model,
        options: Options,
        *,
        threads: Optional[int] = None,
        python: str = "python3",
        timeout: float = TIMEOUT,
        keep: Keep = result_of,
        target: Optional[Callable[[], Target]] = None,
    ):
        if model.following:
            raise UsageError(f"{name}: a target runs one net; this model has several")
        self.name = name
        self._model, self._options = model, options
        self._threads, self._timeout, self._keep = threads, timeout, keep
        self._target = target or (lambda: target_of(name, python))
        self._most = FEWEST

    def findings(self, examples: Sequence[Example], todo: Sequence[int]) -> Answered:
        """The findings in order; many examples are sent at a time."""
        with tempfile.TemporaryDirectory(prefix="armnet-evaluate-") as made:
            folder = Path(made)
            self_contained(self._model).save(folder / "pair")
            files = pair_files(folder / "pair", target_program.NETWORK)
            with self._target() as target:
                target.deploy({**runtime_files(), **files, _PROGRAM: Path(target_program.__file__)})
                failed: Dict[int, Finding] = {}
                for sent in self._chunks(examples, todo, failed):
                    yield from self._asked(target, folder, sent)
                    yield from failed.items()
                    failed.clear()
                yield from failed.items()

    def _chunks(
        self, examples: Sequence[Example], todo: Sequence[int], failed: Dict[int, Finding]
    ) -> Iterator[List[_Sent]]:
        """The examples, in chunks as large as allowed; those that cannot be read go to ``failed``."""
        chunk: List[_Sent] = []
        nbytes = 0
        for number in todo:
            try:
                sent = self._sent(number, examples[number].value)
            except (UsageError, MissingDependency):
                raise
            except ArmnetError as error:
                failed[number] = {"error": str(error)}
                continue
            chunk.append(sent)
            nbytes += sum(array.nbytes for array in sent.arrays.values())
            if len(chunk) >= self._most or nbytes >= MOST_BYTES:
                yield chunk
                chunk, nbytes = [], 0
        if chunk:
            yield chunk

    def _sent(self, number: int, value: Any) -> _Sent:
        arrays = self._model.arrays_of(value)
        if arrays is None and "sound" in self._model.entry:
            return _Sent(number, {target_program.WAVE: self._model.wave_of(value)}, None)
        prepared = self._model.prepared(value) if arrays is None else self._model.of_arrays(arrays)
        return _Sent(number, prepared.feeds, prepared)

    def _asked(self, target: Target, folder: Path, sent: Sequence[_Sent]) -> Answered:
        """The findings of a chunk."""
        inputs = {f"{place}|{name}": array for place, one in enumerate(sent) for name, array in one.arrays.items()}
        np.savez(folder / target_program.INPUTS, **inputs)  # type: ignore[arg-type]  # names, not options
        target.deploy({target_program.INPUTS: folder / target_program.INPUTS})
        words = [str(len(sent)), str(self._threads or 0)]
        start = time.monotonic()
        errors: Dict[str, str] = json.loads(target.output([_PROGRAM, *words], self._timeout))
        seconds = time.monotonic() - start
        if seconds < QUICK:
            self._most = min(2 * self._most, MOST)
        elif seconds > SLOW:
            self._most = max(self._most // 2, 1)
        with np.load(io.BytesIO(target.fetch(target_program.OUTPUTS))) as archive:
            outputs = target_program.by_place({key: archive[key] for key in archive.files})
        for place, one in enumerate(sent):
            if str(place) in errors:
                yield one.number, {"error": errors[str(place)]}
            else:
                yield one.number, answered(lambda one=one, place=place: self._read(one, outputs[place]), self._keep)  # type: ignore[misc]

    def _read(self, sent: _Sent, outputs: Dict[str, Any]) -> Answer:
        if sent.prepared is None:
            return self._model.answer_sound(outputs, self._options)
        answers = self._model.answers_from(outputs, sent.prepared, self._options)
        if len(answers) != 1:
            raise FeedError(f"one example gives {len(answers)} answers")
        return answers[0]
