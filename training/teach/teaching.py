"""Teaches a network the classes of a folder: cuts it at its features, trains a new head, and perhaps its last
layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

from runtime_arm.app.evidence import with_result
from runtime_arm.app.model import Model
from runtime_arm.app.teaching.cutting import sound_of
from runtime_arm.app.teaching.lesson import Lesson, LocalTeaching, Progress, remembered, save, taught
from runtime_arm.errors import UsageError
from runtime_arm.pair.pair import Pair
from training.teach.cut import cut
from training.teach.tuning import Tuning, tuned


def teach(
    pair: Pair,
    data: Any,
    *,
    cut_at: Optional[str] = None,
    add_to: Optional[Any] = None,
    ways: Sequence[str] = ("mirror",),
    hold_out: float = 0.2,
    epochs: int = 200,
    seed: int = 0,
    tuning: Optional[Tuning] = None,
    checkpoints: Optional[Path] = None,
    preprocessing: Any = None,
    place: LocalTeaching = LocalTeaching(),  # noqa: B008
    notice: Callable[[str], None] = lambda text: None,
    progress: Progress = lambda text, done, total: None,
) -> Lesson:
    """The pair with a new head for the classes in ``data``, a folder of pictures or sounds for each.

    cut_at: the blob with the features (see ``cut``). add_to: the folder of a taught pair, whose classes are kept in
    addition to the new ones. ways: how pictures are varied (``runtime_arm.app.teaching.augment``). tuning: also train
    the last layers; checkpoints: the folder from which that is resumed. The others are those of ``taught``. UsageError,
    in one line, for data that do not fit.
    """
    pair = with_result(pair)
    where = cut_at or (str(pair.meta["taught"]) if pair.meta.get("taught") else None)
    features = cut(pair, where)
    old = None if add_to is None else remembered(add_to, features)
    if tuning is not None and old is not None:
        raise UsageError(
            "fine-tuning needs pictures of all classes, and those of classes known before are not kept; leave out one"
        )
    if tuning is not None and sound_of(pair):
        raise UsageError("layers are fine-tuned on pictures; for sounds a new head is trained alone")
    with Model(pair, preprocessing=preprocessing, notice=notice) as model:
        given: Dict[str, Any] = {"ways": ways, "hold_out": hold_out, "seed": seed, "progress": progress}
        lesson = taught(features, model, data, old=old, epochs=epochs, place=place, **given)
        if tuning is None:
            return lesson
        return tuned(lesson, features, model, tuning, checkpoints=checkpoints, notice=notice, **given)


__all__ = ["Lesson", "save", "teach"]
