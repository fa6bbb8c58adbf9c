"""Cuts a network where its features are, and joins another head to them."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

VECTOR, SCORES, OUTPUT = "taught_features", "taught_scores", "taught"
WEIGHTS, BIAS = "taught_w", "taught_b"
ENTRY = "teachable"  # in model.json: where a bundle's network is cut


class Cut(NamedTuple):
    """A pair that computes the features: the output ``taught_features``, (N, size), made of the blob ``blob``.

    dims: how many dimensions that blob has; those after the second are averaged.
    """

    pair: Pair
    blob: str
    size: int
    dims: int

    def entry(self) -> Dict[str, Any]:
        """The data with which ``cut_of_entry`` cuts the same network again."""
        return {"blob": self.blob, "size": self.size, "dims": self.dims}


def cut_at(pair: Pair, blob: str, size: int, dims: int) -> Cut:
    """The part of a net up to a blob, (N, size, ...), of this many dimensions."""
    states = _states(pair)
    ops = needed(pair.predict_net, [blob, *states])
    if dims > 2:
        pool = OperatorDef.of("ReduceMean", [blob], [VECTOR], axes=list(range(2, dims)), keepdims=0)
    else:
        pool = OperatorDef.of("Copy", [blob], [VECTOR])
    return Cut(part_of(pair, [*ops, pool], [VECTOR, *states]), blob, size, dims)


def cut_of_entry(pair: Pair) -> Cut:
    """The cut that a pair's entry "teachable" describes. UsageError if it has none, or one that does not fit."""
    entry = pair.meta.get(ENTRY)
    if not isinstance(entry, Mapping):
        raise UsageError("this network was not packed for teaching; armnet pack --teachable does that")
    blob, size, dims = (entry.get(key) for key in ("blob", "size", "dims"))
    known = {name for op in pair.predict_net.op for name in op.output}
    if blob not in known or not all(isinstance(n, int) and 1 < n < 1 << 24 for n in (size, dims)):
        raise UsageError(f"the entry {ENTRY!r} of model.json must name a blob, its size and its dimensions")
    return cut_at(pair, str(blob), int(size or 0), int(dims or 0))


def part_of(pair: Pair, ops: Sequence[OperatorDef], outputs: Sequence[str]) -> Pair:
    """The pair of some of a net's operators, with the weights that these read."""
    read = {name for op in ops for name in op.reads()}
    inputs = tuple(name for name in pair.predict_net.external_input if name in read)
    net = pair.predict_net.replace(op=tuple(ops), external_input=inputs, external_output=tuple(outputs))
    fills = tuple(op for op in pair.init_net.op if read.intersection(op.output))
    init = pair.init_net.replace(op=fills, external_output=tuple(name for op in fills for name in op.output))
    meta = {key: value for key, value in pair.meta.items() if key in ("source", "preprocessing", "quantization")}
    infos = tuple(TensorInfo(name, None, None if name != VECTOR else "float32") for name in outputs)
    given = tuple(info for info in pair.inputs if info.name in read)
    return Pair(init, net, given, infos, meta=meta).check()


def needed(net: NetDef, blobs: Iterable[str]) -> List[OperatorDef]:
    """The operators that blobs depend on, in order; the last that writes each included."""
    wanted, ops = set(blobs), []
    for op in reversed(net.op):
        if wanted.intersection(op.output):
            ops.append(op)
            wanted.update(op.reads())
    return ops[::-1]


def _states(pair: Pair) -> Tuple[str, ...]:
    """The outputs that a net of sounds hands to its next run."""
    sound = sound_of(pair)
    return tuple(str(name) for name in (sound.get("state") or {}))


def sound_of(pair: Pair) -> Dict[str, Any]:
    """How a net hears, as its entry "result" says; empty if it does not."""
    found = (pair.meta.get("result") or {}).get("sound")
    return dict(found) if isinstance(found, Mapping) else {}


def with_head(features: Cut, weights: Array, bias: Array, labels: Sequence[str], told: Mapping[str, Any]) -> Pair:
    """The pair that computes probabilities of the labels from the features: softmax(features W^T + b).

    told: more entries of its model.json, such as "preprocessing" and "sound".
    """
    head = (
        OperatorDef.of("FC", [VECTOR, WEIGHTS, BIAS], [SCORES]),
        OperatorDef.of("Softmax", [SCORES], [OUTPUT]),
    )
    pair, rest = features.pair, {key: value for key, value in told.items() if key != "sound"}
    others = tuple(info for info in pair.outputs if info.name != VECTOR)
    net = pair.predict_net.replace(
        op=(*pair.predict_net.op, *head),
        external_input=(*pair.predict_net.external_input, WEIGHTS, BIAS),
        external_output=(OUTPUT, *(info.name for info in others)),
    )
    fills = (*pair.init_net.op, fill(WEIGHTS, weights), fill(BIAS, bias))
    init = pair.init_net.replace(op=fills, external_output=(*pair.init_net.external_output, WEIGHTS, BIAS))
    result = {"kind": "classes", "decoder": "classes", "classes": len(labels), "outputs": {"scores": OUTPUT}}
    if told.get("sound"):
        result.update(kind="sound events", decoder="keywords", sound=dict(told["sound"]))
    result["scores"] = "probabilities"
    meta = {**pair.meta, **rest, "labels": list(labels), "result": result, "taught": features.blob}
    meta[ENTRY] = features.entry()
    return Pair(init, net, pair.inputs, (TensorInfo(OUTPUT, None, "float32"), *others), meta=meta).check()
