"""What another runtime computed for a source model, blob by blob."""

from __future__ import annotations

from typing import List, NamedTuple

from runtime_arm.netdef import Array


class Seen(NamedTuple):
    """A blob of the source model: its name there, its name in the pair, and its value in the pair's layout."""

    name: str
    blob: str
    value: Array


class Evidence(NamedTuple):
    """Every blob that a runtime shows, in the order in which it computed them.

    runtime: its name and version. exact: integers must be equal; otherwise one step of difference is allowed.
    """

    runtime: str
    seen: List[Seen]
    exact: bool = False
