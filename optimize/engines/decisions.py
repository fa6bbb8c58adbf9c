"""Where a net decides by numbers: after a TopK or a NonZero, one last bit can replace a row of an output by another.

If engines make a net decide otherwise, its outputs do not show their errors. The numbers by which it decides do.
"""

from __future__ import annotations

from typing import AbstractSet, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from optimize.engines.accuracy import Results
from optimize.rewriting.shapes import infer_more
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec

Specs = Mapping[str, Optional[TensorSpec]]


class Cut(NamedTuple):
    """A part of a net, by the places of its operators: what makes the floats by which the net decides, and the choices,
    which are made by these alone."""

    places: AbstractSet[int]
    floats: Sequence[str]
    choices: Sequence[str]

    def of(self, pair: Pair) -> Pair:
        """This part of a pair, whatever its engines; floats and choices are its outputs."""
        ops = tuple(op for place, op in enumerate(pair.predict_net.op) if place in self.places)
        names = tuple(dict.fromkeys([*self.floats, *self.choices]))
        return pair.replace(predict_net=pair.predict_net.replace(op=ops, external_output=names), outputs=())

    def measured(self, found: Results) -> Results:
        """Only the floats."""
        return [{name: one[name] for name in self.floats} for one in found]

    def chooses_otherwise(self, wanted: Results, actual: Results) -> bool:
        """Whether integers or booleans among the choices differ."""
        pairs = [(one[name], other[name]) for one, other in zip(wanted, actual) for name in self.choices]
        return any(np.asarray(a).dtype.kind in "iub" and not np.array_equal(a, b) for a, b in pairs)


def before_decisions(pair: Pair, inputs: Mapping[str, TensorSpec], places: Collection[int]) -> Optional[Cut]:
    """The part of a pair before it decides.

    inputs: their specs. places: operators whose errors are to show. None if the net decides over no output that may be
    of floats, or if one of these operators comes after a decision or leads to none.
    """
    net = pair.predict_net
    decided, read, choices = _decisions(net, _inferred(pair, inputs))
    if decided.isdisjoint(net.external_output):
        return None
    made = {name for op in net.op for name in op.output}
    shown = [*read, *(name for name in net.external_output if name in made - decided and name not in read)]
    if not shown or not _makers(net.op, shown).issuperset(places):
        return None
    return Cut(_makers(net.op, [*shown, *choices]), shown, choices)


def _inferred(pair: Pair, inputs: Mapping[str, TensorSpec]) -> Specs:
    net, weights = pair.predict_net, Weights(pair.init_net)
    constants = {name: weights.spec(name) for op in net.op for name in op.reads() if name in weights}
    return infer_more(net, {**constants, **inputs})[0]


def _decisions(net: NetDef, specs: Specs) -> Tuple[Set[str], Dict[str, None], List[str]]:
    """The blobs that depend on a decision, except integers that are outputs; the float blobs that are read by operators
    that decide or come after a decision; and the results of the first decisions.
    """
    behind: Set[str] = set()
    read: Dict[str, None] = {}
    choices: List[str] = []
    made: Set[str] = set()
    for op in net.op:
        floats = [name for name in op.reads() if name in made - behind and _is_of_floats(specs.get(name))]
        is_behind = not behind.isdisjoint(op.reads())
        if is_behind or (floats and _decides(op, specs)):
            choices += [] if is_behind else [name for name in op.output if name]
            behind.update(name for name in op.output if name)
            read.update(dict.fromkeys(floats))
        made.update(name for name in op.output if name)
    return {name for name in behind if specs.get(name) is None or _is_of_floats(specs[name])}, read, choices


def _decides(op: OperatorDef, specs: Specs) -> bool:
    """Whether it makes indices, booleans or sizes of what it reads. Integers of 8 and 16 bits are quantised numbers."""
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
