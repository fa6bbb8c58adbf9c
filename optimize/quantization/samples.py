"""Samples: typical inputs, by name."""

from __future__ import annotations

from typing import Iterable, List, Mapping, Sequence, Union

import numpy as np

from optimize.quantization.calibration import Sample
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo

Samples = Union[Sequence[Sample], Iterable[Mapping[str, Array]]]


class _Checked(Sequence[Sample]):
    """The samples, each checked when it is read."""

    def __init__(self, samples: Sequence[Sample], inputs: Sequence[TensorInfo]):
        self._samples, self._inputs = samples, inputs

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return _Part(self, range(len(self))[index])
        sample = self._samples[index]
        if not isinstance(sample, Mapping):
            raise UsageError(f"sample {index + 1} must hold arrays by input name, got {type(sample).__name__}")
        for info in self._inputs:
            if info.name not in sample:
                raise UsageError(f"sample {index + 1} has no input {info.name!r}; it has {', '.join(sample) or 'none'}")
            values = np.asarray(sample[info.name])
            if values.dtype.kind == "f" and not bool(np.isfinite(values).all()):
                raise UsageError(f"sample {index + 1}: input {info.name!r} holds numbers that are not finite")
        return sample


class _Part(Sequence[Sample]):
    """Some of the samples, each read when it is asked for."""

    def __init__(self, samples: Sequence[Sample], places: Sequence[int]):
        self._samples, self._places = samples, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return _Part(self._samples, self._places[index])
        return self._samples[self._places[index]]


def as_sequence(samples: Samples, inputs: Sequence[TensorInfo]) -> Sequence[Sample]:
    """The samples as a sequence that is read one at a time; other iterables are collected first."""
    collected: Sequence[Sample] = samples if isinstance(samples, Sequence) else _collected(samples)
    return _Checked(collected, inputs)


def without(samples: Sequence[Sample], places: Sequence[int]) -> Sequence[Sample]:
    """The samples but those at some places, each read when it is asked for."""
    return _Part(samples, [place for place in range(len(samples)) if place not in places])


def _collected(samples: Iterable[Mapping[str, Array]]) -> List[Sample]:
    if isinstance(samples, Mapping):
        raise UsageError("samples must be several dictionaries of arrays, got one dictionary; put it into a list")
    return list(samples)
