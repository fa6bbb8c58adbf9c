"""Caffe2's decoders of label sequences from scores: connectionist temporal classification (CTC) and Viterbi."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32
from runtime_arm.records import NamedTuple
from runtime_arm.registry.schema import DataDependent, operator, require
from runtime_arm.registry.specs import TensorSpec

BLANK = 0


def _require_scores(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec]) -> None:
    require(op, x.ndim == 3 and x.shape[2] > 0, "X must be (steps, N, labels)", x)
    fits = lengths is None or (lengths.shape == x.shape[1:2] and lengths.dtype == np.int32)
    require(op, fits, "lengths must be (N,) int32", x, lengths)


def _steps(op: OperatorDef, x: Array, lengths: Optional[Array]) -> List[int]:
    counts = [len(x)] * x.shape[1] if lengths is None else [int(n) for n in lengths]
    require(op, all(0 <= n <= len(x) for n in counts), f"lengths must be 0 to {len(x)}, got {counts}")
    return counts


@operator("CTCGreedyDecoder", inputs=(1, 2), outputs=2, dtypes=FLOAT32)
def ctc_greedy_decoder(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Lengths and values (int32) of each sequence's most likely labels, without label 0, the blank.

    X: (steps, N, labels). ``merge_repeated`` merges equal labels at consecutive steps. Source: Graves et al.,
    Connectionist Temporal Classification, ICML 2006, section 3.2 (best path decoding); Caffe2.
    """
    _require_scores(op, x, lengths)
    raise DataDependent("the labels")


@ctc_greedy_decoder.reference
def ctc_greedy_decoder_reference(op: OperatorDef, x: Array, lengths: Optional[Array] = None) -> List[Any]:
    counts = np.array(_steps(op, x, lengths), np.int64)
    labels = x.argmax(2).T if x.size else np.zeros((x.shape[1], len(x)), np.int64)
    before = np.concatenate([np.full((len(labels), 1), BLANK), labels[:, :-1]], axis=1)[:, : len(x)]
    kept = (labels != BLANK) & (np.arange(len(x)) < counts[:, None])
    if op.get_bool("merge_repeated", True):
        kept &= labels != before
    return [kept.sum(1).astype(np.int32), labels[kept].astype(np.int32)]


Prefix = Tuple[int, ...]


class _Beam(NamedTuple):
    """The probability of a prefix, split by whether its last step is blank."""

    blank: float
    label: float

    @property
    def total(self) -> float:
        return self.blank + self.label


NEVER = _Beam(0.0, 0.0)


@operator("CTCBeamSearchDecoder", inputs=(1, 2), outputs=(2, 3), dtypes=FLOAT32)
def ctc_beam_search_decoder(op: OperatorDef, x: TensorSpec, lengths: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Lengths (N * num_candidates) and values (int32) of each sequence's best prefixes, and their probabilities.

    X: (steps, N, labels) probabilities; label 0 is the blank. ``beam_width`` (10) prefixes are kept after each step,
    extended by labels of more than ``prune_threshold`` (0.001), if there are any. The best ``num_candidates`` (1) are
    returned. Source: Graves et al., ICML 2006, section 3.2 (prefix search); Caffe2.
    """
    _require_scores(op, x, lengths)
    width, wanted = op.get_int("beam_width", 10), op.get_int("num_candidates", 1)
    if not 1 <= wanted <= width:
        raise ArgumentError(op, f"num_candidates must be 1 to beam_width, {width}, got {wanted}")
    raise DataDependent("the labels")


@ctc_beam_search_decoder.reference
def ctc_beam_search_decoder_reference(op: OperatorDef, x: Array, lengths: Optional[Array] = None) -> List[Any]:
    wanted = op.get_int("num_candidates", 1)
    found: List[Tuple[Prefix, float]] = []
    for sequence, count in enumerate(_steps(op, x, lengths)):
        best = _prefixes(op, x[:count, sequence].astype(np.float64))[:wanted]
        found += best + [((), 0.0)] * (wanted - len(best))
    values = [label for prefix, _ in found for label in prefix]
    return [
        np.array([len(prefix) for prefix, _ in found], np.int32),
        np.array(values, np.int32),
        np.array([share for _, share in found], np.float32),
    ]


def _prefixes(op: OperatorDef, x: Array) -> List[Tuple[Prefix, float]]:
    """The most likely prefixes after all steps of X (steps, labels), best first; of equal ones, the lowest labels."""
    known: Dict[Prefix, _Beam] = {(): _Beam(1.0, 0.0)}
    best: List[Prefix] = [()]
    for step in x:
        known = _extended(known, best, step, op.get_float("prune_threshold", 0.001))
        ranked = sorted(known, key=lambda prefix: (-known[prefix].total, prefix))
        best = ranked[: op.get_int("beam_width", 10)]
    return [(prefix, known[prefix].total) for prefix in best]


def _extended(known: Dict[Prefix, _Beam], best: List[Prefix], step: Array, threshold: float) -> Dict[Prefix, _Beam]:
    """The prefixes in ``best`` after one more step, by label. Prefixes that were dropped before may return."""
    following: Dict[Prefix, _Beam] = {}

    def add(prefix: Prefix, blank: float, label: float) -> None:
        old = following.get(prefix, NEVER)
        following[prefix] = _Beam(old.blank + blank, old.label + label)

    likely = np.flatnonzero(step > threshold).tolist() or range(len(step))
    kept = set(best)
    for prefix in best:
        beam = known[prefix]
        for label in likely:
            longer = (*prefix, label)
            if label == BLANK:
                add(prefix, step[label] * beam.total, 0.0)
                continue
            repeated = prefix[-1:] == (label,)
            add(longer, 0.0, step[label] * (beam.blank if repeated else beam.total))
            if repeated:
                add(prefix, 0.0, step[label] * beam.label)
            if longer not in kept:
                dropped = known.get(longer, NEVER)
                add(longer, step[BLANK] * dropped.total, step[label] * dropped.label)
    return following


@operator("ViterbiPath", inputs=2, dtypes=FLOAT32)
def viterbi_path(op: OperatorDef, x: TensorSpec, transitions: TensorSpec) -> List[TensorSpec]:
    """(N,) int32: the sequence of labels with the largest sum of scores and of transitions between labels.

    X: (N, D) scores; transitions: (D, D), from the first index to the second. Source: Viterbi, IEEE Trans. Inf. Theory
    13(2), 1967; Caffe2.
    """
    fits = x.ndim == 2 and x.size > 0 and transitions.shape == (x.shape[1],) * 2 and transitions.dtype == x.dtype
    require(op, fits, "X must be (N, D) and the transitions (D, D)", x, transitions)
    return [TensorSpec(x.shape[:1], np.int32)]


@viterbi_path.reference
def viterbi_path_reference(op: OperatorDef, x: Array, transitions: Array) -> List[Any]:
    scores, came_from = x[0], np.zeros(x.shape, np.int64)
    for step in range(1, len(x)):
        reached = scores[:, None] + transitions
        came_from[step] = reached.argmax(0)
        scores = x[step] + reached.max(0)
    path = [int(scores.argmax())]
    for step in range(len(x) - 1, 0, -1):
        path.append(int(came_from[step, path[-1]]))
    return [np.array(path[::-1], np.int32)]


@operator("SwapBestPath", inputs=2, dtypes=FLOAT32)
def swap_best_path(op: OperatorDef, x: TensorSpec, path: TensorSpec) -> List[TensorSpec]:
    """X with the maximum of each row swapped with the element that the path names. X: (N, D); path: (N,) int32."""
    require(
        op,
        x.ndim == 2 and path.shape == x.shape[:1] and path.dtype == np.int32 and x.shape[1] > 0,
        "X must be (N, D) and the path (N,) int32",
        x,
        path,
    )
    return [x]


@swap_best_path.reference
def swap_best_path_reference(op: OperatorDef, x: Array, path: Array) -> List[Any]:
    inside = bool(np.all((path >= 0) & (path < x.shape[1])))
    require(op, inside, f"the path must be 0 to {x.shape[1] - 1}, got {path.tolist()}")
    y, rows, best = x.copy(), np.arange(len(x)), x.argmax(1)
    y[rows, path], y[rows, best] = x[rows, best], x[rows, path]
    return [y]
