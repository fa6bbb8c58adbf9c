"""Loop bodies whose blobs keep their shapes: every trip runs on the same memory."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple


class Steady(NamedTuple):
    """The planned body of a Loop.

    inputs: their memory, None for those that nothing reads; a run may overwrite it. outputs: their memory. run:
    computes the outputs. copies: (target, source), which bring the carried blobs of a trip to where the next trip reads
    them.
    """

    inputs: Sequence[Optional[Array]]
    outputs: Sequence[Array]
    copies: Sequence[Tuple[Array, Array]]
    run: Callable[[], Any]

    @staticmethod
    def of(inputs: Sequence[Optional[Array]], outputs: Sequence[Array], run: Callable[[], Any]) -> Optional[Steady]:
        """None if a carried blob changes its shape, or if its input overlaps the output of another one."""
        copies: List[Tuple[Array, Array]] = []
        carried = inputs[2:]
        sources = outputs[1 : 1 + len(carried)]
        for at, target in enumerate(carried):
            if target is None:
                continue
            source = sources[at]
            if (target.shape, target.dtype) != (source.shape, source.dtype):
                return None
            stays = _are_one(target, source)
            if any(np.may_share_memory(target, one) for other, one in enumerate(sources) if other != at or not stays):
                return None
            if not stays:
                copies.append((target, source))
        return Steady(inputs, outputs, copies, run)

    def loop(
        self, state: Sequence[Any], trips: range, holds: Callable[[Array], bool]
    ) -> Tuple[List[Any], List[List[Array]]]:
        """Run the body of a Loop for these trips, at least one, as long as its condition holds.

        Returns the carried blobs after the last trip, and the scanned outputs of every trip. state: the carried blobs
        before the first trip.
        """
        (number, condition, *carried), (goes_on, *results) = self.inputs, self.outputs
        for target, given in zip(carried, state):
            if target is not None:
                target[...] = given
        scanned: List[Tuple[List[Array], Array]] = [([], one) for one in results[len(state) :]]
        last = trips[-1]
        for trip in trips:
            if number is not None:
                number[...] = trip
            if condition is not None:
                condition[...] = True
            self.run()
            for slices, one in scanned:
                slices.append(one.copy())
            if not holds(goes_on):
                break
            if trip != last:
                for target, source in self.copies:
                    target[...] = source
        return [one.copy() for one in results[: len(state)]], [slices for slices, _ in scanned]


def _are_one(one: Array, other: Array) -> bool:
    return bool(one.ctypes.data == other.ctypes.data and one.strides == other.strides)
