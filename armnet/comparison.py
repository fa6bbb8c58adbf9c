"""Compares a model, run by its own runtime, with the pair that was made from it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np

from armnet.shapes import sizes_assumed
from exporter.bundle.random_inputs import declared_specs
from exporter.compare.divergence import Divergence, divergences, relative_error
from exporter.compare.original_run import run_original
from exporter.compare.spread import BlobSpread, Spread, spread_of, together
from optimize.engines.sample_inputs import drawn, first_taken_below
from optimize.rewriting.program import Program
from runtime_arm.errors import ExportError, UsageError
from runtime_arm.execution.predictor import Predictor, load
from runtime_arm.machine.memory import portions
from runtime_arm.pair.pair import Pair
from runtime_arm.records import replace

if TYPE_CHECKING:
    from exporter.common.original_run import OriginalRun
    from optimize.rewriting.shapes import SpecsByName
    from runtime_arm.files import AnyPath
    from runtime_arm.netdef import Array
    from runtime_arm.registry.specs import TensorSpec

TOLERANCE = 1e-4  # of a blob's largest magnitude
SAMPLES = 3  # of random inputs
MOST_KEPT = 1 << 30  # bytes of blobs that are compared at a time; the original runs once for each such portion
_WIDER = 20.0  # how much wider each further sample is
_SHAKE = 1e-6  # relative: rounding, as it may come from another order of additions
_SENSITIVE = 10.0  # how much more than by rounding a blob must change before it counts as different

Feeds = Mapping[str, "Array"]
Row = Tuple[Divergence, Tuple[Spread, Spread]]


class Comparison(NamedTuple):
    """What a comparison found.

    runtime: what ran the original, with its version. blobs: an entry for each blob that both have, in the order in
    which the original computes them, from the sample in which it differs most. spreads: the numbers of each blob in all
    samples.
    """

    runtime: str
    blobs: List[Divergence]
    spreads: Sequence[BlobSpread] = ()

    @property
    def first(self) -> Optional[Divergence]:
        """The first blob that differs by more than the tolerance, None if all agree."""
        return next((blob for blob in self.blobs if blob.diverges), None)

    @property
    def first_not_finite(self) -> Optional[BlobSpread]:
        """The first blob that holds NaN or infinities in either run, None if none does."""
        return next((one for one in self.spreads if one.original.not_finite or one.ours.not_finite), None)

    def worst(self, number: int) -> List[Divergence]:
        """The blobs with the largest errors, the largest first."""
        return sorted(self.blobs, key=lambda blob: -blob.error)[:number]


def compare(
    model: Union[AnyPath, Sequence[AnyPath]],
    pair: Union[Pair, AnyPath],
    inputs: Optional[Feeds] = None,
    *,
    tolerance: float = TOLERANCE,
    seed: int = 0,
    samples: int = SAMPLES,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    progress: Callable[[str, int, int], None] = lambda text, done, total: None,
) -> Comparison:
    """Runs a model in its own runtime and the pair made from it, on the same inputs, and compares every blob.

    model: the file or files of the original, or the folder of another pair. inputs: by the pair's names; if they are
    not given, several samples are drawn at random from ``seed``, each with a wider range than the one before, to show
    limits that small numbers never reach; ``shapes`` gives dimensions that the pair leaves open. tolerance: the error
    allowed, relative to a blob's largest magnitude. progress: called with a stage, how many are done and of how many.
    MissingDependency if the original's runtime is not installed, ExportError if it refuses the model, UsageError if the
    two have no blob in common.

    Examples:
        >>> import armnet
        >>> report = armnet.compare("demo/digits.onnx", armnet.export("demo/digits.onnx"))
        >>> report.first is None, len(report.blobs)
        (True, 18)
    """
    if samples < 1:
        raise UsageError(f"at least one sample is needed, got {samples}")
    paths = [model] if isinstance(model, (str, os.PathLike)) else list(model)
    with Predictor(pair) if isinstance(pair, Pair) else load(pair) as predictor:
        given = (shapes or {}) if inputs is None else inputs
        count = samples if inputs is None else 1
        runtime = ""
        rows: Dict[str, Divergence] = {}
        seen: Dict[str, List[Tuple[Spread, Spread]]] = {}

        def compared(number: int, feeds: Feeds) -> Tuple[str, List[Row]]:
            sample = _Sample(predictor, feeds, given, tolerance, wide=number > 0)
            name, found = "", []
            for portion in in_portions(predictor.pair, specs_for(predictor.pair, feeds)):
                progress("the original", 2 * number, 2 * count)
                original = sample.original_run(paths, portion)
                progress("the pair", 2 * number + 1, 2 * count)
                name = original.runtime
                found += sample.compared(original, portion)
            return name, found

        def compared_on_random_inputs(number: int) -> Tuple[str, List[Row]]:
            specs = declared_specs(predictor.pair, shapes)

            def attempt(below: int) -> Tuple[str, List[Row]]:
                return compared(number, _random_inputs(specs, seed, below, number))

            return first_taken_below(specs, attempt)[1]

        for number in range(count):
            runtime, found = compared_on_random_inputs(number) if inputs is None else compared(number, inputs)
            for row, spreads in found:
                known = rows.setdefault(row.blob, row)
                if (row.diverges, row.error) > (known.diverges, known.error):
                    rows[row.blob] = row
                seen.setdefault(row.blob, []).append(spreads)
    if not rows:
        raise UsageError("the pair has none of the original's blobs; was it made from this model?")
    told = [
        BlobSpread(blob, rows[blob].producer, together([a for a, _ in spreads]), together([b for _, b in spreads]))
        for blob, spreads in seen.items()
    ]
    return Comparison(runtime, list(rows.values()), told)


def _random_inputs(specs: Mapping[str, TensorSpec], seed: int, below: int, number: int) -> Dict[str, Array]:
    """The inputs of the sample of that number, wider than those before; of integers, which are otherwise less than
    ``below``, only those of pictures have another range."""
    feeds = drawn(specs, seed + number, below)
    for name, value in feeds.items() if number else ():
        if value.dtype.kind == "f":
            feeds[name] = (value * np.asarray(_WIDER**number, value.dtype)).astype(value.dtype)
        elif value.dtype in (np.uint8, np.int8) and value.ndim == 4:
            limits, rng = np.iinfo(value.dtype), np.random.default_rng(seed + number)
            feeds[name] = np.asarray(rng.integers(limits.min, limits.max, value.shape, value.dtype, endpoint=True))
    return feeds


def specs_for(pair: Pair, feeds: Feeds) -> SpecsByName:
    """What is known of each blob for these inputs without running the pair."""
    given = {name: np.asarray(value) for name, value in feeds.items()}
    inputs = [
        replace(info, shape=given[info.name].shape, dtype=info.dtype or str(given[info.name].dtype))
        if info.name in given
        else info
        for info in pair.inputs
    ]
    return Program.of(pair.replace(inputs=tuple(inputs))).known_specs[0]


def in_portions(pair: Pair, specs: SpecsByName) -> List[List[str]]:
    """The blobs that the pair computes, in its order, at a time as many as take MOST_KEPT, if their sizes are known."""
    names = [name for op in pair.predict_net.op for name in op.output if name]
    known = [(name, specs.get(name)) for name in dict.fromkeys([*names, *(info.name for info in pair.outputs)])]
    return list(portions({name: 0 if spec is None else spec.nbytes for name, spec in known}, MOST_KEPT))


class _Sample(NamedTuple):
    """One sample of inputs, ``feeds``, on which the pair is compared with its original.

    given: the inputs or shapes that the caller gave. wide: numbers are so large that rounding alone can change results;
    then a blob counts as different only if it differs by much more than rounding of the inputs changes it.
    """

    predictor: Predictor
    feeds: Feeds
    given: Mapping[str, Any]
    tolerance: float
    wide: bool

    def original_run(self, paths: Sequence[AnyPath], blobs: Sequence[str]) -> OriginalRun:
        """The run of the original, with at least these blobs."""
        with sizes_assumed(self.predictor.inputs, self.given):
            try:
                return run_original(paths, self.feeds, {*blobs})
            except ExportError:  # the runtime may have refused sizes that nobody gave
                self.predictor.plan({name: array.shape for name, array in self.feeds.items()})
                raise

    def compared(self, original: OriginalRun, blobs: Sequence[str]) -> List[Row]:
        """A row for each of the blobs that both have, with the spreads of both sides."""
        pair, wanted = self.predictor.pair, {*blobs}
        everything = {name for op in pair.predict_net.op for name in op.output if name}
        everything |= {info.name for info in pair.outputs}
        known = {one.blob: one.value.nbytes for one in original.blobs if one.blob in wanted}
        found = []
        for portion in portions(known, MOST_KEPT):  # again: not all sizes were known
            with ExitStack() as stack:  # a Predictor keeps the plan, and the memory, of each portion
                at_once = wanted >= everything and len(portion) == len(known)
                runner = self.predictor if at_once else stack.enter_context(Predictor(pair))
                found += self._portion(runner, original, portion)
        return found

    def _portion(self, predictor: Predictor, original: OriginalRun, portion: Sequence[str]) -> List[Row]:
        producers = {name: op for op in predictor.pair.predict_net.op for name in op.output if name}
        keep = [name for name in portion if name in producers]
        with sizes_assumed(predictor.inputs, self.given):
            ran = predictor.run(self.feeds, keep=keep)
        ours = {name: ran[name] for name in portion}
        rows = divergences(original, ours, producers, self.tolerance)
        both = [one for one in original.blobs if one.blob in ours]
        if self.wide and any(row.diverges for row in rows):
            shaken = predictor.run(_shaken(self.feeds), keep=keep)
            rows = [_unless_rounding(row, ours[one.blob], shaken[one.blob]) for row, one in zip(rows, both)]
        return [(row, (spread_of(one.value), spread_of(ours[one.blob]))) for row, one in zip(rows, both)]


def _shaken(feeds: Feeds) -> Dict[str, Array]:
    """The inputs, with floats changed as rounding might have changed them."""
    rng = np.random.default_rng(0)
    return {
        name: (value * (1 + _SHAKE * rng.standard_normal(value.shape))).astype(value.dtype)
        if value.dtype.kind == "f"
        else value
        for name, value in feeds.items()
    }


def _unless_rounding(row: Divergence, ours: Array, shaken: Array) -> Divergence:
    if not row.diverges or not np.isfinite(row.error):
        return row
    turned_over = ours.shape != shaken.shape or row.error <= _SENSITIVE * relative_error(ours, shaken)
    return row._replace(diverges=False, cause="") if turned_over else row
