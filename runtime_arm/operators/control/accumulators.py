"""Carried blobs of loops that only grow: lists of boxes, of masks, of tokens."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.operators.common.copying import along
from runtime_arm.operators.layout.concat import adds_axis, join_axis


class Accumulators:
    """The carried blobs that a loop's body only extends at the end, by Concat, and does not use otherwise.

    The body gets them without elements. So a trip copies only what it adds, which may differ in length each time, and
    everything is joined once, after the last trip.
    """

    def __init__(self, body: NetDef, read: int, written: int, state: Sequence[Any]):
        """read, written: where the carried blobs begin among the body's inputs and outputs. state: these at first."""
        self._axes: Dict[int, int] = {}
        self._parts: Dict[int, List[Array]] = {}
        for place, first in enumerate(state):
            concat = _joining(body, body.external_input[read + place], body.external_output[written + place])
            if concat is not None and isinstance(first, np.ndarray) and first.ndim:
                self._axes[place] = join_axis(concat, first.ndim)
                self._parts[place] = []

    def __bool__(self) -> bool:
        """Whether there is such a blob."""
        return bool(self._axes)

    def take(self, state: Sequence[Any]) -> List[Any]:
        """The carried blobs for the next trip: what they hold, at first or by the trip before, is kept here."""
        given = [*state]
        for place, axis in self._axes.items():
            self._parts[place].append(state[place])
            given[place] = state[place][along(axis, 0, 0)]
        return given

    def joined(self, state: Sequence[Any]) -> List[Any]:
        """The carried blobs behind the last trip, which left ``state``."""
        whole = [*state]
        for place, parts in self._parts.items():
            if parts:
                whole[place] = np.concatenate([*parts, state[place]], self._axes[place])
        return whole


def _joining(body: NetDef, before: str, after: str) -> Optional[OperatorDef]:
    """The Concat that joins something to the blob ``before``, which makes ``after``; None if the body does anything
    else with either."""
    makers = [op for op in body.op if after in op.output]
    if len(makers) != 1 or makers[0].full_type != "Concat" or adds_axis(makers[0]):
        return None
    concat = makers[0]
    read = [*body.external_output, *(name for op in body.op for name in op.reads())]
    grows = (
        concat.input[0] == before and concat.input.count(before) == 1 and read.count(before) == read.count(after) == 1
    )
    hidden = any(before in op.output for op in body.op)
    return concat if grows and not hidden and not any(name in read for name in concat.output[1:] if name) else None
