"""Labels: the names of classes, one a line."""

from __future__ import annotations

import os
from typing import Callable, List, Optional, Sequence, Union

from runtime_arm.errors import FeedError, UsageError

BACKGROUNDS = ("background", "???", "__background__", "_background_", "unlabeled", "dummy")  # a first line too many


def read_labels(path: Union[str, os.PathLike[str]]) -> List[str]:
    """The labels in a file with one label per line. FeedError if it cannot be read as UTF-8 text."""
    try:
        with open(path, encoding="utf-8-sig") as file:  # Windows puts a byte order mark before the first line
            return [line.rstrip("\n") for line in file]
    except OSError as error:
        raise FeedError(f"{os.fspath(path)}: cannot read labels: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise FeedError(f"{os.fspath(path)}: holds no labels: it is no text in UTF-8") from error


def fitting(
    labels: Optional[Sequence[str]],
    count: Optional[int],
    source: str,
    notice: Callable[[str], None],
    behind: bool = False,
) -> Optional[List[str]]:
    """The labels of ``count`` classes. A first line that names a background which the net lacks is dropped, with a
    notice, and so are empty lines at the end. UsageError for any other number of labels.

    count: None if the net does not state it; then all are taken. behind: the first class is the background, so one
    label less names the others.
    """
    if labels is None:
        return None
    given = list(labels)
    while given and not given[-1].strip() and len(given) != count:
        given.pop()
    if count is None or len(given) == count:
        return given
    if len(given) == count + 1 and given[0].strip().lower() in BACKGROUNDS:
        notice(f"{source}: the first label {given[0]!r} is left out, because the net has only {count} classes")
        return given[1:]
    if behind and len(given) == count - 1 and given[0].strip().lower() not in BACKGROUNDS:
        if len(given) > 1:
            notice(
                f"{source}: has one label fewer than the net has classes; the first class is taken for the background"
            )
        return [BACKGROUNDS[0], *given]
    raise UsageError(f"{source}: has {len(given)} labels, the net has {count} classes")
