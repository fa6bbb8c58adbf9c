"""Fine-tunes the last layers of a taught network together with its head; the layers before them are computed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from runtime_arm.app.model import Model
from runtime_arm.app.teaching.cutting import BIAS, VECTOR, WEIGHTS, Cut, cut_at, part_of
from runtime_arm.app.teaching.features import Extractor, features_of
from runtime_arm.app.teaching.head import Head
from runtime_arm.app.teaching.lesson import Known, Lesson, Progress, lesson_of
from runtime_arm.app.teaching.samples import split
from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from training.data.memory_cache import MemoryCache
from training.data.samples import Feeds, Samples, batches_of
from training.fitting import Plan, fit
from training.solvers import Adam
from training.teach.cut import PRODUCTS
from training.trainer import Trainer

LABEL = "taught_label"


@dataclass(frozen=True)
class Tuning:
    """layers: how many layers with weights before the head are also trained.

    batch_norm: as for Trainer. patience: it ends after this many epochs without a better held-out loss.
    """

    layers: int
    epochs: int = 20
    rate: float = 1e-4
    batch: int = 16
    patience: int = 4
    batch_norm: str = "frozen"

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise UsageError(f"at least one layer must be fine-tuned, got {self.layers}")


class _Parts(NamedTuple):
    """A taught net in two: ``before`` computes the blobs that ``behind`` reads, which ends with the scores."""

    before: Pair
    behind: Pair


def tuned(
    lesson: Lesson,
    features: Cut,
    model: Model,
    tuning: Tuning,
    *,
    ways: Sequence[str],
    hold_out: float,
    seed: int,
    checkpoints: Optional[Path],
    notice: Callable[[str], None],
    progress: Progress,
) -> Lesson:
    """The lesson with its last layers trained; the same lesson if that does not improve the held-out loss.

    The arguments are those with which the lesson was learned. checkpoints: a folder to go on from.
    """
    memory = lesson.memory
    paths, classes = [Path(str(name)) for name in memory["names"]], memory["classes"]
    learned, held = split(classes, hold_out, seed)
    parts = _apart(lesson.pair, tuning.layers)
    with Extractor(parts.before, model, ways) as extractor:
        views = memory["features"].shape[1]
        rows = [(int(row), view) for row in _balanced(classes, learned) for view in range(views)]
        samples = _Seen(extractor, paths, classes, rows)
        apart = _Seen(extractor, paths, classes, [(int(row), 0) for row in held])
        behind = _with_shapes(parts.behind, samples.feeds(np.array([0])))
        trainer = Trainer(behind, "softmax", LABEL, solver=Adam(tuning.rate), batch_norm=tuning.batch_norm)
        before = trainer.evaluate(batches_of(apart, tuning.batch, LABEL)).loss
        plan = Plan(tuning.epochs, tuning.batch, tuning.patience, seed)
        epochs = fit(trainer, samples, apart, plan, checkpoints=checkpoints, progress=progress)
        after = trainer.evaluate(batches_of(apart, tuning.batch, LABEL)).loss
    told = f"fine-tuning brought the held-out loss from {before:.3f} to {after:.3f}"
    if after >= before:
        notice(f"{told}: the layers stay as they were")
        return lesson._replace(epochs=[*lesson.epochs, *epochs])
    notice(told)
    fills = {op.output[0]: op for op in trainer.pair().init_net.op}
    init = lesson.pair.init_net
    pair = lesson.pair.replace(init_net=init.replace(op=tuple(fills.get(op.output[0], op) for op in init.op)))
    again = cut_at(pair, features.blob, features.size, features.dims)
    with Extractor(again.pair, model, ways) as extractor:
        found = features_of(extractor, paths, classes, progress)
    known = Known(found.values, classes, [str(path) for path in paths], lesson.labels)
    head = Head(fills[WEIGHTS].get_tensor("values"), fills[BIAS].get_tensor("values"), [*lesson.epochs, *epochs])
    return lesson_of(pair, features.blob, known, (learned, held), head, lesson.skipped)


class _Seen(Samples):
    """Samples: the blobs before the trained layers, for views of files; (file, view) is a row."""

    def __init__(self, extractor: Extractor, paths: Sequence[Path], classes: Array, rows: List[Tuple[int, int]]):
        self._extractor, self._paths, self._rows = extractor, paths, rows
        self.truths = classes[[row for row, _ in rows]].astype(np.int32)
        self.stamp = repr(([str(path) for path in paths], rows))
        self._kept: MemoryCache[Feeds] = MemoryCache(lambda views: sum(array.nbytes for array in views.values()))

    def feeds(self, rows: Array, random: Optional[np.random.RandomState] = None) -> Feeds:
        chosen = [self._rows[int(row)] for row in rows]
        found = [(self._views(number), view) for number, view in chosen]
        return {name: np.stack([views[name][view] for views, view in found]) for name in found[0][0]}

    def _views(self, number: int) -> Feeds:
        return self._kept.get(number, lambda: self._extractor.views(self._paths[number]))


def _balanced(classes: Array, learned: Array) -> Array:
    """Rows to train on; those of small classes occur several times."""
    of_class = [learned[classes[learned] == number] for number in np.unique(classes)]
    most = max(len(rows) for rows in of_class)
    return np.concatenate([np.resize(rows, most) for rows in of_class])


def _apart(pair: Pair, layers: int) -> _Parts:
    """The net before its last layers, and from them on. UsageError if it does not have that many."""
    ops, constant = pair.predict_net.op, {name for op in pair.init_net.op for name in op.output}
    head = next(place for place, op in enumerate(ops) if VECTOR in op.output)
    weighted = [
        place
        for place, op in enumerate(ops[:head])
        if op.type in PRODUCTS and len(op.input) > 1 and op.input[1] in constant
    ]
    if layers >= len(weighted):
        told = f"{layers} layers cannot be fine-tuned: before its head the network has {len(weighted)}, the first stays"
        raise UsageError(f"{told}; armnet train trains all")
    at = weighted[-layers]
    made = {name for op in ops[:at] for name in op.output}
    read = _read_first(ops[at:])
    fed = {info.name for info in pair.inputs}
    if fed & set(read):
        raise UsageError(
            f"the last {layers} layers read the input {sorted(fed & set(read))[0]!r}; armnet train trains all"
        )
    border = [name for name in read if name in made]
    before = part_of(pair, ops[:at], border)
    weights = tuple(name for name in read if name in constant)
    fills = tuple(op for op in pair.init_net.op if set(op.output) & set(weights))
    outputs = (pair.outputs[0].name,)
    net = NetDef("last_layers", tuple(ops[at:]), external_input=(*border, *weights), external_output=outputs)
    infos = tuple(TensorInfo(name, None, "float32") for name in border)
    init = NetDef("last_layers_init", fills, external_output=weights)
    return _Parts(before, Pair(init, net, infos, (pair.outputs[0],)).check())


def _read_first(ops: Sequence[OperatorDef]) -> List[str]:
    """The blobs that operators read before one of them has written them, in order."""
    written: Set[str] = set()
    found: Dict[str, None] = {}
    for op in ops:
        found.update(dict.fromkeys(name for name in op.reads() if name not in written))
        written.update(op.output)
    return list(found)


def _with_shapes(pair: Pair, sample: Feeds) -> Pair:
    infos = tuple(TensorInfo(info.name, ("batch", *sample[info.name].shape[1:]), "float32") for info in pair.inputs)
    return pair.replace(inputs=infos)
