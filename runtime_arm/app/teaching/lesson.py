"""Teaches a network the classes of a folder: features of each file, a new head, and how well it does."""

from __future__ import annotations

import io
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.app.model import Model
from runtime_arm.app.sounds import is_sound
from runtime_arm.app.teaching.cutting import Cut, sound_of, with_head
from runtime_arm.app.teaching.features import Extractor, Features, features_of
from runtime_arm.app.teaching.head import Epoch, Head, train_head
from runtime_arm.app.teaching.samples import Samples, is_seen, samples_in, split
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, is_zip, map_file
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.writing import write_files

MEMORY = "taught.npz"  # in the folder of a taught pair: the features of its samples, for classes that are added later
MOST_WRONG = 10
Progress = Callable[[str, int, int], None]


class Mistake(NamedTuple):
    """A held-out file that is taken for another class, with the share of certainty."""

    path: str
    label: str
    taken_for: str
    score: float


class Lesson(NamedTuple):
    """A taught pair, its labels, and its accuracy on files that it was not trained on.

    confusion[i, j]: how many held-out samples of class i are taken for class j. mistakes: the worst first.
    """

    pair: Pair
    labels: List[str]
    cut_at: str
    accuracy: float
    confusion: Array
    epochs: List[Epoch]
    mistakes: List[Mistake]
    skipped: List[str]
    learned: int
    held_out: int
    memory: Dict[str, Array]

    def table(self) -> Tuple[List[str], List[List[Any]]]:
        """The confusions: the names of the columns, and the rows."""
        return ["held out", *self.labels], [[name, *map(int, row)] for name, row in zip(self.labels, self.confusion)]

    def lines(self) -> List[str]:
        """How much is right, and what is not, in words."""
        wrong = [f"  {one.path}: {one.label}, taken for {one.taken_for} ({one.score:.0%})" for one in self.mistakes]
        right = f"{self.accuracy:.1%} of {self.held_out} held-out files are right; learned from {self.learned}"
        return [right, *wrong]


class Known(NamedTuple):
    """All samples: features with their views, classes, and names; samples from memory have no path."""

    values: Array
    classes: Array
    names: List[str]
    labels: List[str]

    def rows(self, chosen: Array, first: bool = False) -> Tuple[Array, Array]:
        """Features and classes of samples, of all their views or of the first."""
        values = self.values[chosen]
        views = 1 if first else values.shape[1]
        return values[:, :views].reshape(len(chosen) * views, -1), np.repeat(self.classes[chosen], views)

    def memory(self) -> Dict[str, Array]:
        """The bytes that ``remembered`` reads."""
        named = {"labels": np.array(self.labels), "names": np.array(self.names)}
        return {"features": self.values, "classes": self.classes, **named}


class LocalTeaching:
    """Where features are computed and heads are trained: in this process. ``armnet teach --on`` has another."""

    def extractor(self, part: Pair, whole: Model, ways: Sequence[str]) -> Extractor:
        """Computes the features: see ``Extractor``."""
        return Extractor(part, whole, ways)

    def head(self, known: Known, learned: Array, held: Array, epochs: int, seed: int, progress: Progress) -> Head:
        """Trains a head on some rows of the samples, judged by others."""
        classes, apart = len(known.labels), known.rows(held, first=True)
        return train_head(*known.rows(learned), apart, classes, epochs=epochs, seed=seed, progress=progress)


def read_data(data: Any, pair: Pair) -> Samples:
    """The files of a folder that a network takes: pictures, or sounds."""
    return samples_in(data, is_sound if sound_of(pair) else is_seen)


def joined(samples: Samples, found: Features, old: Optional[Known]) -> Known:
    """The known samples, followed by the new ones. UsageError if a class is in both, or has too few."""
    names = [str(samples.paths[number]) for number in found.kept]
    classes, labels = samples.classes[found.kept], samples.labels
    known = Known(found.values, classes, names, labels)
    if old is not None:
        clash = sorted(set(labels) & set(old.labels))
        if clash:
            raise UsageError(f"class {clash[0]!r} is known already; give new classes, or teach all of them again")
        views = min(found.values.shape[1], old.values.shape[1])
        values = np.concatenate([old.values[:, :views], found.values[:, :views]])
        classes = np.concatenate([old.classes, classes + len(old.labels)])
        known = Known(values, classes, [*old.names, *names], [*old.labels, *labels])
    if len(known.labels) < 2:
        raise UsageError("there is only one class; at least two are needed")
    counts = np.bincount(known.classes, minlength=len(known.labels))
    few = [label for label, count in zip(known.labels, counts) if count < 2]
    if few:
        raise UsageError(
            f"class {few[0]!r} has fewer than two samples that can be read; one is to learn from, one to judge by"
        )
    return known


def taught(
    features: Cut,
    model: Model,
    data: Any,
    *,
    ways: Sequence[str] = ("mirror",),
    old: Optional[Known] = None,
    hold_out: float = 0.2,
    epochs: int = 200,
    seed: int = 0,
    place: LocalTeaching = LocalTeaching(),  # noqa: B008
    progress: Progress = lambda text, done, total: None,
) -> Lesson:
    """The network with a new head for the classes in ``data``.

    features: where the net is cut; model: the whole, which says how files become inputs. ways: see ``Extractor``. old:
    samples that it knows. hold_out: the share of each class that is used for evaluation instead of training. seed: of
    the order and of the choice of held-out samples. place: where it is done. UsageError, in one line, for data that do
    not fit.
    """
    if not 0 < hold_out < 1:
        raise UsageError(f"hold_out must be between 0 and 1, got {hold_out:g}")
    samples = read_data(data, model.pair)
    if not sound_of(model.pair) and model.input is None and any(p.suffix.lower() != ".npy" for p in samples.paths):
        raise UsageError("the network takes neither one picture nor a sound; give arrays, as .npy")
    with place.extractor(features.pair, model, () if sound_of(model.pair) else ways) as extractor:
        found = features_of(extractor, samples.paths, samples.classes, progress)
    known = joined(samples, found, old)
    learned, held = split(known.classes, hold_out, seed)
    head = place.head(known, learned, held, epochs, seed, progress)
    told = {"preprocessing": dict(model.rule), "sound": sound_of(model.pair)}
    pair = with_head(features, head.weights, head.bias, known.labels, told)
    return lesson_of(pair, features.blob, known, (learned, held), head, found.skipped)


def lesson_of(pair: Pair, blob: str, known: Known, rows: Tuple[Array, Array], head: Head, skipped: List[str]) -> Lesson:
    """The lesson of a head, with its accuracy on the held-out samples. rows: those for training, and those held out."""
    learned, held = rows
    scores = head.scores(known.values[held, 0])
    taken = scores.argmax(1)
    confusion = np.zeros((len(known.labels),) * 2, np.int64)
    np.add.at(confusion, (known.classes[held], taken), 1)
    accuracy = float((taken == known.classes[held]).mean())
    told = confusion, head.epochs, _mistakes(known, held, scores), skipped
    return Lesson(pair, known.labels, blob, accuracy, *told, len(learned), len(held), known.memory())


def _mistakes(known: Known, held: Array, scores: Array) -> List[Mistake]:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    taken = scores.argmax(1)
    wrong: Sequence[int] = sorted(
        (row for row in range(len(held)) if taken[row] != known.classes[held[row]]),
        key=lambda row: -float(shares[row, taken[row]]),
    )
    return [
        Mistake(
            known.names[held[row]],
            known.labels[known.classes[held[row]]],
            known.labels[taken[row]],
            float(shares[row, taken[row]]),
        )
        for row in wrong[:MOST_WRONG]
    ]


def memory_bytes(lesson: Lesson) -> bytes:
    """The content of MEMORY."""
    content, arrays = io.BytesIO(), dict(lesson.memory)
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]  # names, not options
    return content.getvalue()


def save(lesson: Lesson, path: AnyPath) -> None:
    """Write the pair, and with it the data for classes that are added later."""
    write_files(path, chain(lesson.pair.check().files(), [(MEMORY, [memory_bytes(lesson)])]))


def remembered(folder: AnyPath, features: Cut) -> Known:
    """The samples that a taught pair has learned. UsageError if it has none, or those of another net."""
    if is_zip(folder):
        from runtime_arm.pair.zipped import file_in

        return read_memory(file_in(folder, MEMORY), f"{folder}/{MEMORY}", features)
    path = Path(folder) / MEMORY
    if not path.is_file():
        raise UsageError(f"{folder}: has no {MEMORY}; classes can be added to what armnet teach has written")
    return read_memory(map_file(path), str(path), features)


def read_memory(content: memoryview, called: str, features: Cut) -> Known:
    """The samples that ``memory_bytes`` wrote; see ``remembered``."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            known = Known(
                np.asarray(arrays["features"], np.float32),
                np.asarray(arrays["classes"], np.int32),
                [str(name) for name in arrays["names"]],
                [str(label) for label in arrays["labels"]],
            )
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise UsageError(f"{called}: is damaged: {error}") from None
    if known.values.ndim != 3 or known.values.shape[2] != features.size or len(known.classes) != len(known.values):
        raise UsageError(f"{called}: holds features of another net")
    return known
