"""Teaches a network the classes of a folder of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.app.model import Model
from runtime_arm.errors import UsageError
from runtime_arm.files import map_file, write_file
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from training.teach.cut import Cut, cut, with_head
from training.teach.features import Features, Samples, features_of, samples_in, split
from training.teach.head import Epoch, train_head

MEMORY = "taught.npz"  # beside a taught pair: the features of what it has learned, for classes that come later
Progress = Callable[[str, int, int], None]
_MOST_WRONG = 10


class Mistake(NamedTuple):
    """A held-out picture that is taken for another class, with the share of certainty."""

    path: str
    label: str
    taken_for: str
    score: float


class Lesson(NamedTuple):
    """What was learned: a pair, its labels, and how well it does on pictures that it has not learned from.

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


class _Known(NamedTuple):
    """All samples: features with their views, classes, and names; what comes from memory has no path."""

    values: Array
    classes: Array
    names: List[str]
    labels: List[str]


def teach(
    pair: Pair,
    data: Any,
    *,
    cut_at: Optional[str] = None,
    add_to: Optional[Any] = None,
    augment: str = "mirror",
    hold_out: float = 0.2,
    epochs: int = 200,
    seed: int = 0,
    preprocessing: Any = None,
    notice: Callable[[str], None] = lambda text: None,
    progress: Progress = lambda text, done, total: None,
) -> Lesson:
    """The pair with a new head for the classes in ``data``, a folder of pictures for each.

    cut_at: the blob with the features (see ``cut``). add_to: the folder of a taught pair, whose classes are kept beside
    the new ones. augment: "mirror" learns each picture mirrored, too. hold_out: the share of each class that is judged
    by and not learned from. seed: of the order and of the choice of what is held out. UsageError, in one line, for data
    that do not fit.
    """
    if not 0 < hold_out < 1:
        raise UsageError(f"hold_out must be between 0 and 1, got {hold_out:g}")
    samples = samples_in(data)
    where = cut_at or (str(pair.meta["taught"]) if pair.meta.get("taught") else None)
    features = cut(pair, where)
    with Model(pair, preprocessing=preprocessing, notice=notice) as model:
        rule = dict(model.rule)
        found = features_of(features, model, samples.paths, augment, progress)
    known = _joined(samples, found, None if add_to is None else _remembered(add_to, features))
    if len(known.labels) < 2:
        raise UsageError(f"{data}: holds one class; at least two are needed to tell apart")
    _require_samples(known)
    learned, held = split(known.classes, hold_out, seed)
    head = train_head(
        *_rows(known, learned),
        _rows(known, held, first=True),
        len(known.labels),
        epochs=epochs,
        seed=seed,
        progress=progress,
    )
    scores = known.values[held, 0] @ head.weights.T + head.bias
    taken = scores.argmax(1)
    confusion = np.zeros((len(known.labels),) * 2, np.int64)
    np.add.at(confusion, (known.classes[held], taken), 1)
    memory = {"features": known.values, "classes": known.classes}
    memory.update(labels=np.array(known.labels), names=np.array(known.names))
    return Lesson(
        with_head(features, head.weights, head.bias, known.labels, rule),
        known.labels,
        features.blob,
        float((taken == known.classes[held]).mean()),
        confusion,
        head.epochs,
        _mistakes(known, held, scores),
        found.skipped,
        len(learned),
        len(held),
        memory,
    )


def save(lesson: Lesson, folder: Any) -> None:
    """Write the pair, and beside it what ``add_to`` needs later."""
    import io

    lesson.pair.save(folder)
    content = io.BytesIO()
    arrays: Dict[str, Any] = lesson.memory
    np.savez_compressed(content, **arrays)
    write_file(Path(folder) / MEMORY, [content.getvalue()])


def _remembered(folder: Any, features: Cut) -> _Known:
    import io

    path = Path(folder) / MEMORY
    if not path.is_file():
        raise UsageError(f"{folder}: has no {MEMORY}; classes can be added to what armnet teach has written")
    try:
        with np.load(io.BytesIO(map_file(path)), allow_pickle=False) as arrays:
            known = _Known(
                np.asarray(arrays["features"], np.float32),
                np.asarray(arrays["classes"], np.int32),
                [str(name) for name in arrays["names"]],
                [str(label) for label in arrays["labels"]],
            )
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise UsageError(f"{path}: is damaged: {error}") from None
    if known.values.ndim != 3 or known.values.shape[2] != features.size or len(known.classes) != len(known.values):
        raise UsageError(f"{path}: holds features of another net")
    return known


def _joined(samples: Samples, found: Features, old: Optional[_Known]) -> _Known:
    names = [str(samples.paths[number]) for number in found.kept]
    classes = samples.classes[found.kept]
    if old is None:
        return _Known(found.values, classes, names, samples.labels)
    clash = sorted(set(samples.labels) & set(old.labels))
    if clash:
        raise UsageError(f"class {clash[0]!r} is known already; give new classes, or teach all of them anew")
    views = min(found.values.shape[1], old.values.shape[1])
    return _Known(
        np.concatenate([old.values[:, :views], found.values[:, :views]]),
        np.concatenate([old.classes, classes + len(old.labels)]),
        [*old.names, *names],
        [*old.labels, *samples.labels],
    )


def _require_samples(known: _Known) -> None:
    counts = np.bincount(known.classes, minlength=len(known.labels))
    few = [label for label, count in zip(known.labels, counts) if count < 2]
    if few:
        raise UsageError(f"class {few[0]!r} has fewer than two pictures that can be read; one of them is judged by")


def _rows(known: _Known, chosen: Array, first: bool = False) -> Tuple[Array, Array]:
    """Features and classes of samples, of all their views or of the first."""
    values = known.values[chosen]
    views = 1 if first else values.shape[1]
    return values[:, :views].reshape(len(chosen) * views, -1), np.repeat(known.classes[chosen], views)


def _mistakes(known: _Known, held: Array, scores: Array) -> List[Mistake]:
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
        for row in wrong[:_MOST_WRONG]
    ]
