"""Where a net decides by numbers: behind a TopK or a NonZero, a last bit makes one row of an output another.

There the errors of engines do not show; they show in the numbers by which the net decides.
"""

from __future__ import annotations

from typing import Callable, Collection, Dict, Mapping, Optional, Sequence, Set, Tuple

from optimize.rewriting.shapes import infer_more
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec

Specs = Mapping[str, Optional[TensorSpec]]


def before_decisions(
    pair: Pair, inputs: Mapping[str, TensorSpec], places: Collection[int]
) -> Optional[Callable[[Pair], Pair]]:
    """Cuts a pair with this one's operators, whatever their engines, down to what makes the floats by which it decides.

    inputs: their specs. places: operators whose errors are to show. None if the net decides over no output that may be
    of floats, or if one of these operators is behind a decision or leads to none.
    """
    net = pair.predict_net
    decided, read = _decisions(net, _inferred(pair, inputs))
    if decided.isdisjoint(net.external_output):
        return None
    made = {name for op in net.op for name in op.output}
    shown = [*read, *(name for name in net.external_output if name in made - decided and name not in read)]
    kept = _makers(net.op, shown)
    if not shown or not kept.issuperset(places):
        return None

    def cut(other: Pair) -> Pair:
        ops = tuple(op for place, op in enumerate(other.predict_net.op) if place in kept)
        head = other.predict_net.replace(op=ops, external_output=tuple(shown))
        return other.replace(predict_net=head, outputs=())

    return cut


def _inferred(pair: Pair, inputs: Mapping[str, TensorSpec]) -> Specs:
    net, weights = pair.predict_net, Weights(pair.init_net)
    constants = {name: weights.spec(name) for op in net.op for name in op.reads() if name in weights}
    return infer_more(net, {**constants, **inputs})[0]


def _decisions(net: NetDef, specs: Specs) -> Tuple[Set[str], Dict[str, None]]:
    """The blobs that depend on a decision, but for integers that are outputs, and the float blobs that are read by what
    decides or is behind a decision."""
    behind: Set[str] = set()
    read: Dict[str, None] = {}
    made: Set[str] = set()
    for op in net.op:
        floats = [name for name in op.reads() if name in made - behind and _is_of_floats(specs.get(name))]
        if not behind.isdisjoint(op.reads()) or (floats and _decides(op, specs)):
            behind.update(name for name in op.output if name)
            read.update(dict.fromkeys(floats))
        made.update(name for name in op.output if name)
    return {name for name in behind if specs.get(name) is None or _is_of_floats(specs[name])}, read


def _decides(op: OperatorDef, specs: Specs) -> bool:
    """Whether it makes indices, truths or sizes of what it reads. Integers of 8 and 16 bits are quantised numbers."""
    outputs = [specs.get(name) for name in op.output if name]
    return any(
        spec is None or (spec.value is None and (spec.dtype.kind == "b" or spec.dtype.name in ("int32", "int64")))
        for spec in outputs
    )


def _is_of_floats(spec: Optional[TensorSpec]) -> bool:
    return spec is not None and spec.dtype.kind == "f" and spec.value is None


def _makers(ops: Sequence[OperatorDef], names: Sequence[str]) -> Set[int]:
    """The places of the operators by which these blobs are made."""
    needed, places = set(names), set()
    for place in reversed(range(len(ops))):
        if not needed.isdisjoint(ops[place].output):
            places.add(place)
            needed.update(ops[place].reads())
    return places
