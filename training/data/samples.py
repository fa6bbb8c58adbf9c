"""Samples: a network's inputs and expected answers, row by row."""

from __future__ import annotations

import hashlib
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from runtime_arm.app.teaching.samples import split
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array

Feeds = Dict[str, Array]
Augment = Callable[[Feeds, np.random.RandomState], Feeds]


class Samples:
    """``truths``: the labels or values of all samples, (n, ...). ``labels``: the names of the classes, if any.

    ``stamp`` is a text that changes whenever the samples do.
    """

    truths: Array
    labels: Optional[List[str]] = None
    stamp: str = ""

    def __len__(self) -> int:
        return len(self.truths)

    def feeds(self, rows: Array, random: Optional[np.random.RandomState] = None) -> Feeds:
        """The feeds of the network's inputs for these samples; augmented if ``random`` is given and the samples support
        it."""
        raise NotImplementedError


class ArraySamples(Samples):
    """Arrays in memory, one for each input; the first axis counts samples."""

    def __init__(self, inputs: Mapping[str, Array], truths: Array, augment: Optional[Augment] = None):
        self._inputs, self.truths, self._augment = dict(inputs), truths, augment
        wrong = [name for name, array in self._inputs.items() if len(array) != len(truths)]
        if wrong:
            raise UsageError(f"{wrong[0]!r} holds {len(self._inputs[wrong[0]])} samples, the labels are {len(truths)}")
        content = hashlib.sha256(np.ascontiguousarray(truths).data)
        for name, array in sorted(self._inputs.items()):
            content.update(f"{name} {array.dtype} {array.shape}".encode())
            content.update(np.ascontiguousarray(array).data)
        self.stamp = content.hexdigest()

    def feeds(self, rows: Array, random: Optional[np.random.RandomState] = None) -> Feeds:
        chosen = {name: array[rows] for name, array in self._inputs.items()}
        return chosen if random is None or self._augment is None else self._augment(chosen, random)


class Part(Samples):
    """Some of the samples of others."""

    def __init__(self, whole: Samples, rows: Array):
        self._whole, self._rows = whole, rows
        self.truths, self.labels = whole.truths[rows], whole.labels
        self.stamp = hashlib.sha256(whole.stamp.encode() + np.asarray(rows, np.int64).tobytes()).hexdigest()

    def feeds(self, rows: Array, random: Optional[np.random.RandomState] = None) -> Feeds:
        return self._whole.feeds(self._rows[rows], random)


def held_out(samples: Samples, share: float, seed: int) -> Tuple[Samples, Optional[Samples]]:
    """The samples for training and those for evaluation; the same share of each class, if there are classes."""
    if not 0 <= share < 1:
        raise UsageError(f"the share that is held out must be at least 0 and less than 1, got {share:g}")
    if not share:
        return samples, None
    classes = samples.truths.reshape(-1)
    if classes.dtype.kind not in "iu" or len(classes) != len(samples):
        classes = np.zeros(len(samples), np.int32)
    learned, held = split(classes, share, seed)
    if not len(learned) or not len(held):
        raise UsageError(f"{len(samples)} samples are too few to hold some out")
    return Part(samples, learned), Part(samples, held)


def batches_of(samples: Samples, size: int, labels: str) -> Iterator[Feeds]:
    """All samples once, in order, as batches for a Trainer; the last batch may be smaller."""
    for start in range(0, len(samples), size):
        rows = np.arange(start, min(start + size, len(samples)))
        yield {**samples.feeds(rows), labels: samples.truths[rows]}
