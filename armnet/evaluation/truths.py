"""Maps the words of a data set to the classes of a model."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Sequence

from runtime_arm.errors import UsageError

if TYPE_CHECKING:
    from runtime_arm.app.model import Model

_SHOWN = 5


def plain_name(text: str) -> str:
    """A name without what people write differently: case, and the characters between words."""
    return re.sub(r"[\W_]+", " ", text).strip().lower()


def class_numbers(
    names: Sequence[str], labels: Optional[Sequence[str]], count: Optional[int], source: str
) -> Dict[str, int]:
    """The number of the class that each name means.

    A name is a label, one of the synonyms of a label ("tench, Tinca tinca"), or the number of a class. Without labels,
    as many names as the model has classes are its classes, sorted. UsageError, naming them, if some mean none.

    count: of the model's classes, None if it is not known.
    """
    if labels is None:
        return _by_number(names, count, source)
    known: Dict[str, int] = {}
    for number, label in enumerate(labels):
        for part in str(label).split(","):
            known.setdefault(plain_name(part), number)
    known.update({plain_name(str(label)): number for number, label in reversed(list(enumerate(labels)))})
    found = {name: known[plain_name(name)] for name in names if plain_name(name) in known}
    unknown = [name for name in names if name not in found]
    if unknown and not found and all(name.strip().isdecimal() and int(name) < len(labels) for name in names):
        return {name: int(name) for name in names}
    if unknown:
        raise UsageError(
            f"{source}: {_listed(unknown)}: no class of the model, whose labels are "
            f"{_listed([str(label) for label in labels])}; --labels names the classes as the data does"
        )
    return found


def _by_number(names: Sequence[str], count: Optional[int], source: str) -> Dict[str, int]:
    if all(name.strip().isdecimal() and (count is None or int(name) < count) for name in names):
        return {name: int(name) for name in names}
    if count is not None and len(names) == count:
        return {name: number for number, name in enumerate(sorted(names))}
    known = "" if count is None else f", and the model has {count} classes"
    raise UsageError(f"{source}: {_listed(names)} must be classes of a model without labels{known}; give --labels FILE")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def as_classifier(model: Model, notice: Callable[[str], None]) -> None:
    """Makes a model a classifier if it does not say what its outputs mean, because the data has classes."""
    if model.decoder.kind != "tensors":
        return
    with suppress(UsageError):  # outputs that are no scores of classes stay tensors
        model.as_task("classes", scores="logits")
        notice(
            "the meaning of the outputs is not known; they are taken as scores of classes, the largest is the answer"
        )


def model_labels(model: Model) -> Optional[List[str]]:
    """The labels of a model's classes, None if it has none."""
    return None if model.labels is None else list(model.labels)


def model_count(model: Model) -> Optional[int]:
    """How many classes a model has, None if it does not say."""
    if model.labels is not None:
        return len(model.labels)
    count = model.entry.get("classes")
    return count if isinstance(count, int) and not isinstance(count, bool) else None
