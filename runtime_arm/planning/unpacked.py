"""Weights that operators unpacked when a net was planned.

Most kernels read a weight once, to pack it as they need it. The system can take back the memory of a mapped file
(``files.drop_pages``). An unpacked weight is in no file, but it can be unpacked again. So its memory is given back,
too, once all steps that read it have what they need, and it is filled again before another plan is made. The net then
takes no more memory than one whose file holds floats.
"""

from __future__ import annotations

import mmap
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence

import numpy as np

from runtime_arm.files import drop_pages, give_back, mapping_of
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.planning.steps import Step, Value
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


class Unpacked:
    """One weight: the operator that made it, its inputs, and its memory, None if that cannot be given back.

    is_there: whether it can be read. lasting: whether something reads it while the net runs. waiting: how many of its
    readers are not bound yet.
    """

    def __init__(
        self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], array: Array, memory: Optional[mmap.mmap]
    ):
        self.op, self.inputs, self.array, self.memory = op, inputs, array, memory
        self.is_there, self.lasting, self.waiting = True, False, 0


class UnpackedWeights:
    """The unpacked weights of a net."""

    def __init__(self) -> None:
        self._weights: Dict[int, Unpacked] = {}  # by the identity of their memory

    def __iter__(self) -> Iterator[Unpacked]:
        return iter(self._weights.values())

    def keep(self, op: OperatorDef, inputs: Sequence[Optional[TensorSpec]], array: Array) -> None:
        """The operator has just unpacked the array."""
        memory = mapping_of(array)
        self._weights[id(array if memory is None else memory)] = Unpacked(op, inputs, array, memory)

    def fill(self, array: Optional[Array]) -> None:
        """Unpacks the weight again, if the array is one whose memory was given back."""
        weight = self._of(array)
        if weight is not None and not weight.is_there:
            content: Any = infer_operator(weight.op, weight.inputs)[1][0].value
            np.copyto(weight.array, content)
            weight.is_there = True

    def will_be_bound(self, steps: Iterable[Step], running: Iterable[Step], kept: Iterable[Value]) -> None:
        """Count readers: ``steps`` are a plan, those that are running will be bound, and the kept values must outlive
        it."""
        for weight in self:
            weight.waiting = 0
        bound = set(running)
        for step in steps:
            for weight in self._read_by(step):
                weight.waiting += 1
                weight.lasting |= step not in bound  # its output is a view, by which others read the weight
        for value in kept:
            found = self._of(value.spec.value)
            if found is not None:
                found.lasting = True

    def bound(self, step: Step) -> None:
        """Gives back the weights that only this step still needed.

        A step that reads a weight as two of its inputs may still need one of them after releasing the other.
        """
        released = {id(self._of(array)) for array in step.released}
        read = self._read_by(step)
        for weight in read:
            weight.waiting -= 1
            weight.lasting |= id(weight) not in released or read.count(weight) > 1
            if weight.memory is not None and weight.is_there and not weight.lasting and weight.waiting == 0:
                weight.is_there = False  # first, in case the program is interrupted in between
                give_back(weight.memory)

    def all_bound(self) -> None:
        """Lets the system take back the packed weights: reading a page of a file also loads its neighbours, even those
        that were given back before."""
        for weight in self:
            for spec in weight.inputs:
                if spec is not None:
                    drop_pages(spec.value)

    def _read_by(self, step: Step) -> List[Unpacked]:
        """The weights among the inputs of a step, each as often as it is one."""
        found = [self._of(value.spec.value) for value in step.inputs if value is not None]
        return [weight for weight in found if weight is not None]

    def _of(self, array: Optional[Array]) -> Optional[Unpacked]:
        memory = None if array is None else mapping_of(array)
        return self._weights.get(id(array if memory is None else memory))
