"""What the runtime of a source model computed for it, blob by blob: what ``armnet compare`` compares a pair with."""

from __future__ import annotations

from typing import List, NamedTuple

from runtime_arm.netdef import Array


class OriginalBlob(NamedTuple):
    """A blob of the source model: its name there, its name in the pair, and its value in the pair's layout."""

    name: str
    blob: str
    value: Array


class OriginalRun(NamedTuple):
    """A run of a source model by its own runtime.

    runtime: its name and version. blobs: every blob that it shows, in the order in which it computed them. exact:
    integers must be equal; otherwise one step of difference is allowed.
    """

    runtime: str
    blobs: List[OriginalBlob]
    exact: bool = False
