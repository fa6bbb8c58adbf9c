"""Finds where the features of a classifier are."""

from __future__ import annotations

from typing import Dict, Optional, Set, Tuple

from optimize.rewriting.shapes import sample_specs
from optimize.rewriting.weights import Weights
from runtime_arm.app.teaching.cutting import Cut, cut_at, needed
from runtime_arm.errors import UsageError
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.shape_inference import infer_net
from runtime_arm.registry.specs import TensorSpec

PRODUCTS = ("FC", "FCTransposed", "Conv", "ConvRelu", "Gemm", "MatMul", "FusedFC", "FusedFCTransposed", "FusedConv")


def cut(pair: Pair, blob: Optional[str] = None) -> Cut:
    """The part of a net before its head. blob: where to cut; by default the input of the last layer with weights.

    A blob with pixels is averaged over them. UsageError if there is no such blob, or if it holds no vector a sample.
    """
    chosen = _features(pair) if blob is None else blob
    if all(chosen not in op.output for op in pair.predict_net.op):
        raise UsageError(f"the net computes no blob {chosen!r}; `armnet inspect` lists them")
    net = pair.predict_net.replace(op=tuple(needed(pair.predict_net, [chosen])), external_output=(chosen,))
    spec = _spec(pair, net, chosen)
    if spec is None or spec.ndim < 2 or spec.dtype.kind != "f":
        found = "unknown" if spec is None else f"{spec.dtype.name} {list(spec.shape)}"
        raise UsageError(f"{chosen!r} holds no vector of floats per sample ({found}); cut elsewhere (--cut BLOB)")
    return cut_at(pair, chosen, int(spec.shape[1]), spec.ndim)


def _features(pair: Pair) -> str:
    """The input of the last operator with constant weights, found backwards from the output with the scores."""
    net, constant = pair.predict_net, {name for op in pair.init_net.op for name in op.output}
    roles = (pair.meta.get("result") or {}).get("outputs") or {}
    start = str(roles.get("scores") or net.external_output[0])
    wanted: Set[str] = {start}
    for op in reversed(net.op):
        if wanted.intersection(op.output):
            if op.type in PRODUCTS and len(op.input) > 1 and op.input[1] in constant:
                return op.input[0]
            wanted.update(name for name in op.input if name not in constant)
    raise UsageError("no layer with weights was found before the output; name the blob with the features (--cut BLOB)")


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
