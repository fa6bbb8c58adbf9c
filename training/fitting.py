"""Trains for several epochs: random batches, evaluation on held-out samples, checkpoints, and resuming from one."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from runtime_arm.app.teaching.clock import Clock
from runtime_arm.app.teaching.head import LEAST_FALL, Epoch
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.files import one_line_errors
from runtime_arm.netdef import Array
from training.data.samples import Samples, batches_of
from training.trainer import Trainer

LAST, BEST = "last.npz", "best.npz"  # the checkpoints in a folder
SECONDS = 30.0  # between two checkpoints

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Plan:
    """How long to train, and how.

    batch: samples per step; samples that do not fill a batch at the end of an epoch wait for the next one. patience:
    training ends after this many epochs without a better held-out loss, and returns to the best; 0: never. seed: of the
    order and of the augmentation.
    """

    epochs: int = 10
    batch: int = 32
    patience: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1 or self.patience < 0:
            raise UsageError("epochs and batch must be at least 1, patience at least 0")

    def steps_an_epoch(self, samples: Samples) -> int:
        """How many batches an epoch has."""
        return max(1, len(samples) // self.batch)


@dataclass
class _Place:
    """The progress of a training: finished epochs, steps in this one, and the state of the random numbers."""

    random: np.random.RandomState
    start: Any  # the random numbers' state when this epoch began
    epoch: int = 0
    step: int = 0
    total: float = 0.0  # of this epoch's losses
    waited: int = 0
    best: float = float("inf")
    learned: List[Epoch] = field(default_factory=list)

    def notes(self, plan: str) -> Dict[str, Any]:
        own = {name: getattr(self, name) for name in ("epoch", "step", "total", "waited")}
        best = self.best if np.isfinite(self.best) else None
        states = {"start": _plain(self.start), "now": _plain(self.random.get_state())}
        return {**own, **states, "best": best, "learned": [list(one) for one in self.learned], "plan": plan}

    def take(self, notes: Dict[str, Any]) -> None:
        for name in ("epoch", "step", "total", "waited"):
            setattr(self, name, notes[name])
        self.best = float("inf") if notes["best"] is None else notes["best"]
        self.learned = [Epoch(*one) for one in notes["learned"]]
        self.start = _state(notes["start"])
        self.random.set_state(_state(notes["now"]))


def fit(
    trainer: Trainer,
    samples: Samples,
    held_out: Optional[Samples] = None,
    plan: Plan = Plan(),
    *,
    random: Optional[np.random.RandomState] = None,
    checkpoints: Optional[Path] = None,
    progress: Progress = lambda text, done, total: None,
) -> List[Epoch]:
    """Train; the results of each epoch. checkpoints: a folder; one in it of the same training is resumed.

    random: replaces ``plan.seed``. A training that was killed at any moment and started again ends with the same
    weights, bit for bit. UsageError for a checkpoint of another training, ResourceError if one cannot be written.
    """
    if plan.patience and held_out is None:
        raise UsageError("patience needs samples that are held out")
    random = np.random.RandomState(plan.seed) if random is None else random
    place = _Place(random, random.get_state())
    course = _Course(trainer, samples, held_out, plan, place, checkpoints, progress)
    course.resume()
    while place.epoch < plan.epochs and not course.is_over():
        course.epoch()
    course.end()
    return place.learned


class _Course:
    """One training in progress."""

    def __init__(
        self,
        trainer: Trainer,
        samples: Samples,
        held_out: Optional[Samples],
        plan: Plan,
        place: _Place,
        folder: Optional[Path],
        progress: Progress,
    ):
        self._trainer, self._samples, self._held_out, self._plan = trainer, samples, held_out, plan
        self._place, self._folder, self._progress = place, folder, progress
        self._steps = plan.steps_an_epoch(samples)
        self._clock = Clock()
        self._saved = time.monotonic()
        told = [repr(plan), samples.stamp, held_out.stamp if held_out is not None else "", trainer.digest()]
        self._mark = hashlib.sha256("\n".join(told).encode()).hexdigest()
        self._kept: Optional[Dict[str, Array]] = None  # the best state

    def resume(self) -> None:
        """Continue from the checkpoint, if there is one."""
        if self._folder is None:
            return
        with one_line_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / LAST
        if not path.is_file():
            return
        start = self._trainer.state()
        notes = self._trainer.restore(path)
        try:
            if notes["plan"] != self._mark:
                raise UsageError(f"{path}: belongs to another training: remove it, or name another folder")
            self._place.take(notes)
            if self._plan.patience and np.isfinite(self._place.best):
                now = self._trainer.state()
                self._trainer.restore(self._folder / BEST)
                self._kept = self._trainer.state()
                self._trainer.go_back(now)
        except (KeyError, TypeError, ValueError) as error:
            self._trainer.go_back(start)
            raise UsageError(f"{path}: no checkpoint of a training: {error}") from None
        except ArmnetError:
            self._trainer.go_back(start)
            raise
        self._clock = Clock(self._place.epoch * self._steps + self._place.step)

    def is_over(self) -> bool:
        """Whether patience has run out."""
        return bool(self._plan.patience) and self._place.waited >= self._plan.patience

    def epoch(self) -> None:
        """Train for the rest of an epoch, and note its results."""
        place, size = self._place, min(self._plan.batch, len(self._samples))
        now = place.random.get_state()
        place.random.set_state(place.start)
        order = place.random.permutation(len(self._samples))
        if place.step:
            place.random.set_state(now)
        while place.step < self._steps:
            rows = order[place.step * size : (place.step + 1) * size]
            feeds = self._samples.feeds(rows, place.random)
            place.total += self._trainer.step({**feeds, self._trainer.labels: self._samples.truths[rows]})
            place.step += 1
            self._tell()
            if time.monotonic() >= self._saved + SECONDS:
                self._save()
        self._judge()
        place.epoch, place.step, place.total, place.start = place.epoch + 1, 0, 0.0, place.random.get_state()
        self._save()

    def _judge(self) -> None:
        place, judged = self._place, None
        if self._held_out is not None:
            judged = self._trainer.evaluate(batches_of(self._held_out, self._plan.batch, self._trainer.labels))
            place.waited += 1
            if judged.loss < place.best - LEAST_FALL:
                place.best, place.waited = judged.loss, 0
                self._keep()
        loss = place.total / self._steps
        place.learned.append(Epoch(loss, judged.loss if judged else None, judged.accuracy if judged else None))
        if not np.isfinite(loss):
            raise UsageError(f"epoch {place.epoch + 1}: the loss is {loss}; a lower rate may help")

    def _keep(self) -> None:
        """Keep this state as the best, if the training may return to it."""
        if self._plan.patience:
            self._kept = self._trainer.state()
            if self._folder is not None:
                self._trainer.save(self._folder / BEST)

    def _save(self) -> None:
        if self._folder is not None:
            self._trainer.save(self._folder / LAST, self._place.notes(self._mark))
        self._saved = time.monotonic()

    def _tell(self) -> None:
        place = self._place
        done, total = place.epoch * self._steps + place.step, self._plan.epochs * self._steps
        last = f"; before: {place.learned[-1]}" if place.learned else ""
        text = f"epoch {place.epoch + 1} of {self._plan.epochs}, loss {place.total / place.step:.3f}{last}"
        self._progress(f"{text}; {self._clock.left(done, total)}", done, total)

    def end(self) -> None:
        """Return to the best state, if that is wanted."""
        if self._kept is not None:
            self._trainer.go_back(self._kept)
        self._trainer.close()


def _plain(state: Any) -> List[Any]:
    name, keys, place, has_normal, normal = state
    return [name, [int(key) for key in keys], int(place), int(has_normal), float(normal)]


def _state(plain: List[Any]) -> Any:
    name, keys, place, has_normal, normal = plain
    return name, np.array(keys, np.uint32), place, has_normal, normal
