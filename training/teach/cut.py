"""Cuts a classifier where its features are, and joins another head to them."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from optimize.rewriting.shapes import sample_specs
from optimize.rewriting.weights import Weights
from runtime_arm.errors import UsageError
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.shape_inference import infer_net
from runtime_arm.registry.specs import TensorSpec

VECTOR, SCORES, OUTPUT = "taught_features", "taught_scores", "taught"
WEIGHTS, BIAS = "taught_w", "taught_b"
_PRODUCTS = ("FC", "FCTransposed", "Conv", "ConvRelu", "Gemm", "MatMul", "FusedFC", "FusedFCTransposed", "FusedConv")


class Cut(NamedTuple):
    """A pair that computes the features: the output ``taught_features``, (N, size), made of the blob ``blob``."""

    pair: Pair
    blob: str
    size: int


def cut(pair: Pair, blob: Optional[str] = None) -> Cut:
    """The part of a net before its head. blob: where to cut; by default what the last layer with weights reads.

    A blob with pixels is averaged over them. UsageError if there is no such blob, or if it holds no vector a sample.
    """
    chosen = _features(pair) if blob is None else blob
    if all(chosen not in op.output for op in pair.predict_net.op):
        raise UsageError(f"the net computes no blob {chosen!r}; `armnet inspect` lists them")
    ops = _needed(pair.predict_net, chosen)
    net = pair.predict_net.replace(op=tuple(ops), external_output=(chosen,))
    spec = _spec(pair, net, chosen)
    if spec is None or spec.ndim < 2 or spec.dtype.kind != "f":
        found = "unknown" if spec is None else f"{spec.dtype.name} {list(spec.shape)}"
        raise UsageError(f"{chosen!r} holds no vector of floats a sample ({found}); cut elsewhere (--cut BLOB)")
    if spec.ndim > 2:
        pool = OperatorDef.of("ReduceMean", [chosen], [VECTOR], axes=list(range(2, spec.ndim)), keepdims=0)
    else:
        pool = OperatorDef.of("Copy", [chosen], [VECTOR])
    net = net.replace(op=(*ops, pool), external_output=(VECTOR,))
    read = {name for op in net.op for name in op.reads()}
    net = net.replace(external_input=tuple(name for name in net.external_input if name in read))
    fills = tuple(op for op in pair.init_net.op if read.intersection(op.output))
    init = pair.init_net.replace(op=fills, external_output=tuple(name for op in fills for name in op.output))
    meta = {key: value for key, value in pair.meta.items() if key in ("source", "preprocessing")}
    outputs = (TensorInfo(VECTOR, None, "float32"),)
    cut_pair = Pair(init, net, pair.inputs, outputs, meta=meta).check()
    return Cut(cut_pair, chosen, spec.shape[1])


def with_head(features: Cut, weights: Array, bias: Array, labels: Sequence[str], rule: Dict[str, object]) -> Pair:
    """The pair that computes probabilities of the labels from the features: softmax(features W^T + b)."""
    head = (
        OperatorDef.of("FC", [VECTOR, WEIGHTS, BIAS], [SCORES]),
        OperatorDef.of("Softmax", [SCORES], [OUTPUT]),
    )
    pair = features.pair
    net = pair.predict_net.replace(
        op=(*pair.predict_net.op, *head),
        external_input=(*pair.predict_net.external_input, WEIGHTS, BIAS),
        external_output=(OUTPUT,),
    )
    fills = (*pair.init_net.op, fill(WEIGHTS, weights), fill(BIAS, bias))
    init = pair.init_net.replace(op=fills, external_output=(*pair.init_net.external_output, WEIGHTS, BIAS))
    result = {
        "kind": "classes",
        "decoder": "classes",
        "classes": len(labels),
        "outputs": {"scores": OUTPUT},
        "scores": "probabilities",
    }
    meta = {**pair.meta, "preprocessing": rule, "labels": list(labels), "result": result, "taught": features.blob}
    return Pair(init, net, pair.inputs, (TensorInfo(OUTPUT, None, "float32"),), meta=meta).check()


def _features(pair: Pair) -> str:
    """What the last operator with constant weights reads, on the way back from the output that has the scores."""
    net, constant = pair.predict_net, {name for op in pair.init_net.op for name in op.output}
    roles = (pair.meta.get("result") or {}).get("outputs") or {}
    start = str(roles.get("scores") or net.external_output[0])
    wanted: Set[str] = {start}
    for op in reversed(net.op):
        if wanted.intersection(op.output):
            if op.type in _PRODUCTS and len(op.input) > 1 and op.input[1] in constant:
                return op.input[0]
            wanted.update(name for name in op.input if name not in constant)
    raise UsageError("no layer with weights was found before the output; say where the features are (--cut BLOB)")


def _needed(net: NetDef, blob: str) -> List[OperatorDef]:
    """The operators that the blob depends on, in order; the last that writes it included."""
    wanted, ops = {blob}, []
    for op in reversed(net.op):
        if wanted.intersection(op.output):
            ops.append(op)
            wanted.update(op.reads())
    return ops[::-1]


def _spec(pair: Pair, net: NetDef, blob: str) -> Optional[TensorSpec]:
    """Shape and type of a blob, for the size to which the pair's pictures are resized."""
    from runtime_arm.app.evidence import facts_of

    facts = facts_of(pair)
    known = {**sample_specs(facts.inputs), **_weights(pair, net)}
    for picture in facts.pictures:
        spec = known[picture.name]
        sizes = {"N": spec.shape[0], "C": picture.channels, "H": picture.height or 64, "W": picture.width or 64}
        known[picture.name] = spec.with_shape([int(sizes[letter] or 1) for letter in picture.layout])
    return infer_net(net, known).get(blob)


def _weights(pair: Pair, net: NetDef) -> Dict[str, TensorSpec]:
    weights, inputs = Weights(pair.init_net), {info.name for info in pair.inputs}
    names: Tuple[str, ...] = tuple(name for name in net.captures() if name not in inputs)
    computed = run_init_net(pair.init_net) if any(name not in weights for name in names) else {}
    found = {name: weights.spec(name) if name in weights else TensorSpec.known(computed[name]) for name in names}
    return {name: spec for name, spec in found.items() if spec is not None}
