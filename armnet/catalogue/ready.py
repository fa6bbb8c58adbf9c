"""Makes a ready-to-use pair from a model of the catalogue: optimised, with labels and preprocessing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Dict, List, Sequence

from armnet.catalogue.download import Progress, fetched
from armnet.catalogue.entries import Entry, RemoteFile
from runtime_arm.files import AnyPath, replaced_folder
from runtime_arm.pair.pair import Pair


def fetch_files(entry: Entry, mirrors: Sequence[str], progress: Progress) -> List[Path]:
    """All files of the model, in the cache: those of the net, then the labels."""
    labels = [entry.labels] if isinstance(entry.labels, RemoteFile) else []
    return [fetched(file, mirrors, progress) for file in [*entry.files, *labels]]


def save_files(files: Sequence[Path], folder: AnyPath) -> None:
    """Copy them into a folder, which appears as a whole."""
    with replaced_folder(folder) as temporary:
        for file in files:
            shutil.copyfile(file, temporary / file.name)


def ready_pair(entry: Entry, files: Sequence[Path], progress: Progress) -> Pair:
    """The pair, exported and optimised. files: as ``fetch_files`` returns them."""
    from exporter import export
    from optimize import optimize
    from runtime_arm.app.labels import read_labels

    options: Dict[str, Any] = {"preprocessing": entry.preprocessing}
    if isinstance(entry.labels, RemoteFile):
        options["labels"] = read_labels(files[-1])
    elif entry.labels is not None:
        options["labels"] = list(entry.labels)
    pair = export(*files[: len(entry.files)], progress=progress, **options)
    return optimize(pair, progress=progress)
