"""Compares a model, run by its own runtime, with the pair that was made from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Callable, List, Mapping, NamedTuple, Optional, Sequence, Union

from armnet.shapes import sizes_assumed
from exporter.bundle.random_inputs import random_inputs
from exporter.compare.divergence import Divergence, divergences
from exporter.compare.witness import witness
from runtime_arm.errors import ExportError, UsageError
from runtime_arm.execution.predictor import Predictor, load
from runtime_arm.pair.pair import Pair

if TYPE_CHECKING:
    from runtime_arm.files import AnyPath
    from runtime_arm.netdef import Array

TOLERANCE = 1e-4  # of a blob's largest magnitude


class Comparison(NamedTuple):
    """What a comparison found.

    runtime: what ran the original, with its version. blobs: an entry for each blob that both have, in the order in
    which the original computes them.
    """

    runtime: str
    blobs: List[Divergence]

    @property
    def first(self) -> Optional[Divergence]:
        """The first blob that differs by more than the tolerance, None if all agree."""
        return next((blob for blob in self.blobs if blob.diverges), None)

    def worst(self, number: int) -> List[Divergence]:
        """The blobs with the largest errors, the largest first."""
        return sorted(self.blobs, key=lambda blob: -blob.error)[:number]


def compare(
    model: Union[AnyPath, Sequence[AnyPath]],
    pair: Union[Pair, AnyPath],
    inputs: Optional[Mapping[str, Array]] = None,
    *,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    progress: Callable[[str, int, int], None] = lambda text, done, total: None,
) -> Comparison:
    """Runs a model in its own runtime and the pair made from it, on the same inputs, and compares every blob.

    model: the file or files of the original, or the folder of another pair. inputs: by the pair's names; drawn at
    random from ``seed`` if they are not given, with ``shapes`` for dimensions that the pair leaves open. tolerance:
    the error allowed, relative to a blob's largest magnitude. progress: called with a stage, how many are done and of
    how many.
    MissingDependency if the original's runtime is not installed, ExportError if it refuses the model, UsageError if
    the two have no blob in common.
    """
    paths = [model] if isinstance(model, (str, os.PathLike)) else list(model)
    with Predictor(pair) if isinstance(pair, Pair) else load(pair) as predictor:
        feeds = random_inputs(predictor.pair, seed, shapes) if inputs is None else inputs
        given = (shapes or {}) if inputs is None else inputs
        progress("the original", 0, 2)
        with sizes_assumed(predictor.inputs, given):
            try:
                evidence = witness(paths, feeds)
            except ExportError:  # the runtime may have refused sizes that nobody gave
                predictor.plan({name: array.shape for name, array in feeds.items()})
                raise
        progress("the pair", 1, 2)
        producers = {name: op for op in predictor.pair.predict_net.op for name in op.output if name}
        with sizes_assumed(predictor.inputs, given):
            ours = predictor.run(feeds, keep=[seen.blob for seen in evidence.seen if seen.blob in producers])
    blobs = divergences(evidence, ours, producers, tolerance)
    if not blobs:
        raise UsageError("the pair has none of the original's blobs; was it made from this model?")
    return Comparison(evidence.runtime, blobs)
