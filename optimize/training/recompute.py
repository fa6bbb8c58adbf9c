"""Computes blobs of the forward pass again in the backward pass, instead of keeping them.

An operator is repeated right before the first operator that needs its outputs, if this gives the same bits: it must be
pure, and its inputs must still exist, or be computed again themselves. Batch normalisation takes the statistics that it
used the first time. Source: Chen et al., Training Deep Nets with Sublinear Memory Cost (2016).
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from optimize.training.early_updates import first_backward
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import find

NORMALISATIONS = ("SpatialBN", "SpatialBNRelu", "SpatialBNAddRelu")
AGAIN = "_again"


class Forward:
    """The forward pass of a train net: ``ops`` are its operators, ``rest`` are those after it.

    repeats: by blob the operator that makes it again, alone or with others. kept: the blobs of ``ops`` that ``rest``
    reads. constants: inputs that no step changes.
    """

    def __init__(self, net: NetDef, constants: Iterable[str] = ()) -> None:
        border = first_backward(net.op)
        self.ops, self.rest = net.op[:border], net.op[border:]
        self._constants = set(constants)
        self._steady = _steady(net, self.ops)
        self.writers = {name: place for place, op in enumerate(self.ops) for name in op.output if name in self._steady}
        read = {name for op in self.rest for name in op.input}
        self.kept = {name for name in self.writers if name in read}
        self.repeats: Dict[str, OperatorDef] = {}
        for op in self.ops:
            again = self._repeat(op)
            if again is not None:
                self.repeats.update(dict.fromkeys(filter(None, again.output), again))

    def _repeat(self, op: OperatorDef) -> Optional[OperatorDef]:
        """The operator that makes an operator's outputs once more, with the same bits; None if there is none."""
        again = _normalised_again(op) if op.type in NORMALISATIONS and not op.get_bool("is_test") else op
        schema = None if again is None else find(again)
        if again is None or schema is None or not schema.pure or schema.control or op.control_input:
            return None
        if not set(again.reads()) <= self._steady or not set(filter(None, again.output)) <= self._steady:
            return None
        # constant weights let the planner choose other kernels and layouts, which round otherwise
        convolves = schema.kind is Kind.CONVOLUTION
        return None if convolves and set(again.input) & self._constants else again

    def chain(self, name: str, dropped: AbstractSet[str]) -> List[OperatorDef]:
        """The operators that make a blob again. Blobs that are dropped, or that nothing keeps, are made again, too."""
        found: Dict[int, OperatorDef] = {}
        self._follow(name, dropped, found)
        return [found[place] for place in sorted(found)]

    def _follow(self, name: str, dropped: AbstractSet[str], found: Dict[int, OperatorDef]) -> None:
        place = self.writers[name]
        if place not in found:
            found[place] = self.repeats[name]
            for read in self.repeats[name].reads():
                if self.is_made_again(read, dropped):
                    self._follow(read, dropped, found)

    def is_made_again(self, name: str, dropped: AbstractSet[str]) -> bool:
        """Whether an operator that is repeated reads another content of this blob."""
        return name in self.repeats and (name in dropped or name not in self.kept)


def _steady(net: NetDef, forward: Sequence[OperatorDef]) -> AbstractSet[str]:
    """The blobs that hold the same content in the backward pass as in the forward pass."""
    counts: Dict[str, int] = {}
    changed = {name for op in forward for name in op.output}
    for op in net.op:
        for name in op.output:
            counts[name] = counts.get(name, 0) + 1
    fed = {name for name in net.external_input if name not in changed}
    return fed | {name for name in changed if counts[name] == 1 and name and name not in net.external_input}


def _normalised_again(op: OperatorDef) -> Optional[OperatorDef]:
    if len(op.output) < 5 or op.engine or op.get_str("order", "NCHW") != "NCHW":
        return None
    x, scale, bias, *rest = op.input
    again = op.replace(
        type="SpatialBNAgain",
        domain="armnet",
        input=(x, scale, bias, *op.output[3:5], *rest[2:]),
        output=op.output[:1],
        arg=(),
    )
    return again.with_args(relu=int(op.type != "SpatialBN"))


def recompute(net: NetDef, forward: Forward, dropped: AbstractSet[str]) -> Tuple[NetDef, List[OperatorDef]]:
    """The net that makes the dropped blobs again where the backward pass needs them, and the repeated operators."""
    ops: List[OperatorDef] = list(forward.ops)
    repeated: List[OperatorDef] = []
    names: Dict[str, str] = {}
    taken = {name for op in net.op for name in (*op.input, *op.output)}
    for op in forward.rest:
        for name in dict.fromkeys(op.input):
            if name in dropped and name not in names:
                for again in forward.chain(name, dropped):
                    if again.output[0] in names:
                        continue
                    copy = _renamed(again, names, taken)
                    ops.append(copy)
                    repeated.append(again)
                    names.update(zip(again.output, copy.output))
        new = {name: names[name] for name in op.input if name in dropped and name in names}
        ops.append(op.replace(input=tuple(new.get(name, name) for name in op.input)) if new else op)
    return net.replace(op=tuple(ops)), repeated


def _renamed(op: OperatorDef, names: Mapping[str, str], taken: set[str]) -> OperatorDef:
    """The operator behind others that were repeated, with outputs of other names."""
    outputs = []
    for name in op.output:
        new = f"{name}{AGAIN}" if name else ""
        while new in taken:
            new += "_"
        taken.add(new)
        outputs.append(new)
    return op.replace(input=tuple(names.get(name, name) for name in op.input), output=tuple(outputs))
