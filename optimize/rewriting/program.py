"""Program: a pair as passes see it. Every blob is written once, weights are at hand, each blob knows its readers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from optimize.rewriting.shapes import Specs, example_specs, infer_more
from optimize.rewriting.single_assignment import names_held, names_in, single_assignment, written_again
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec


class Match(NamedTuple):
    """Operators, by their places in the net, that a rule would replace, and the blobs that vanish with them.

    No other operator may read ``inner`` blobs; the driver checks that before the rule is asked to rewrite.
    captured: what a pattern has names for (see ``patterns.py``).
    """

    places: Tuple[int, ...]
    inner: Tuple[str, ...] = ()
    captured: Mapping[str, Any] = {}


class Rewrite(NamedTuple):
    """What stands for the matched operators: new ones, where the last of them stood unless ``at`` names another place.

    weights: constants to add, or to remove where the value is None. rename: blobs that take another name everywhere.
    each: there is one for each matched operator, where that one stood.
    """

    operators: Tuple[OperatorDef, ...] = ()
    weights: Mapping[str, Optional[Array]] = {}
    rename: Mapping[str, str] = {}
    at: Optional[int] = None
    each: bool = False


class Program:
    """A net in which every blob is written once, with its weights. Immutable; ``rewritten`` gives another.

    Blobs keep their meaning: as long as a name exists it stands for the same values, so that what is known of it stays
    true. The few blobs that must be written more than once (state that is fed from outside and overwritten, blobs that
    sub-nets share) are ``rewritten_blobs``; no rule touches operators that read or write them. ``outside`` are the
    names that a net around this one knows.
    """

    def __init__(self, net: NetDef, weights: Weights, known: Sequence[Specs], outside: AbstractSet[str] = frozenset()):
        self.net = net
        self.weights = weights
        self.outside = outside
        self._known = known

    @staticmethod
    def of(pair: Pair, unpacked: bool = False) -> Program:
        """The program of a checked pair. ``unpacked``: new weights are written as Caffe2 writes them."""
        fed = (info.name for info in pair.inputs)
        net = single_assignment(pair.predict_net)
        variable = {*fed, *(name for op in net.op for name in op.output)}
        return Program(net, Weights(pair.init_net, variable, unpacked), example_specs(pair.inputs))

    def pair(self, like: Pair) -> Pair:
        """The pair that computes this, with the inputs, outputs and metadata of ``like``; checked."""
        return like.replace(init_net=self.weights.init_net, predict_net=self.net).check()

    # Operators and who reads what

    def operators(self, match: Match) -> List[OperatorDef]:
        """The matched operators in the order of ``match.places``."""
        return [self.net.op[place] for place in match.places]

    @cached_property
    def _writers(self) -> Dict[str, int]:
        return {name: place for place, op in enumerate(self.net.op) for name in op.output if name}

    @cached_property
    def _readers(self) -> Dict[str, List[int]]:
        readers: Dict[str, List[int]] = defaultdict(list)
        for place, op in enumerate(self.net.op):
            for name in dict.fromkeys((*op.reads(), *op.control_input)):
                readers[name].append(place)
        return readers

    @cached_property
    def rewritten_blobs(self) -> AbstractSet[str]:
        """The blobs that are written although they exist already."""
        return written_again(self.net)

    @cached_property
    def _held(self) -> AbstractSet[str]:
        return set().union(*map(names_held, self.net.op))

    @cached_property
    def _names(self) -> AbstractSet[str]:
        return names_in(self.net) | names_in(self.weights.init_net) | self.outside

    def writer(self, name: str) -> Optional[int]:
        """The place of the operator that writes the blob; None for what comes from outside."""
        return self._writers.get(name)

    def readers(self, name: str) -> Sequence[int]:
        """The places of the operators that read the blob, sub-nets included."""
        return self._readers.get(name, ())

    def fresh(self, stem: str) -> str:
        """A name that no blob has: ``stem`` itself, or with a number behind it."""
        name, number = stem, 0
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        return name

    # What rules may not touch, as a reason or None

    def why_named(self, name: str) -> Optional[str]:
        """Why the blob must keep its name."""
        if name in self.net.external_output:
            return f"{name!r} is an output of the net"
        if name in self.outside:
            return f"the net around this one knows {name!r}"
        if name in self.rewritten_blobs:
            return f"{name!r} is written more than once"
        if name in self._held:
            return f"a sub-net knows {name!r} by name"
        if name in self.net.external_input and name not in self.weights:
            return f"{name!r} is an input of the net"
        return None

    def why_kept(self, name: str, among: Iterable[int] = ()) -> Optional[str]:
        """Why the blob cannot vanish together with the operators at the places ``among``."""
        others = [place for place in self.readers(name) if place not in among]
        if others:
            return f"{name!r} is read by {self.net.op[others[0]].signature()} as well"
        return self.why_named(name)

    def why_fixed(self, match: Match) -> Optional[str]:
        """Why the matched operators must stay as they are."""
        for op in self.operators(match):
            again = [name for name in (*op.reads(), *op.output) if name in self.rewritten_blobs]
            if again:
                return f"{again[0]!r} is written more than once"
        reasons = (self.why_kept(name, match.places) for name in match.inner)
        return next((reason for reason in reasons if reason), None)

    # What is known of blobs

    @cached_property
    def _inferred(self) -> Tuple[List[Specs], List[str]]:
        results = [infer_more(self.net, {**self._constant_specs, **known}) for known in self._known]
        return [specs for specs, _ in results], results[0][1]

    @property
    def _constant_specs(self) -> Specs:
        unknown = [name for name in self.weights.names if any(name not in known for known in self._known)]
        return {name: self.weights.spec(name) for name in unknown}

    @property
    def inference_refusals(self) -> Sequence[str]:
        """Why shape inference stopped at operators, each named; only what was not refused before the last rewrite."""
        return self._inferred[1]

    def value(self, name: str) -> Optional[Array]:
        """The content of a blob that is a weight, else None."""
        return self.weights.value(name)

    @property
    def known_specs(self) -> Sequence[Specs]:
        """Every blob's spec, None where it is not known, for each choice of the sizes that the inputs leave open."""
        return self._inferred[0]

    def specs(self, name: str) -> List[Optional[TensorSpec]]:
        """The blob's spec for each choice of the sizes that the inputs leave open."""
        return [specs.get(name) for specs in self.known_specs]

    def dims(self, name: str) -> Optional[Tuple[Optional[int], ...]]:
        """The blob's shape, None in place of sizes that follow from open ones; None if their number is not known."""
        shapes = [spec.shape for spec in self.specs(name) if spec is not None]
        if len(shapes) < len(self._known) or len(set(map(len, shapes))) > 1:
            return None
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes))

    def have_same_shape(self, *names: str) -> bool:
        """Whether the blobs are known to have one shape and dtype."""
        for specs in zip(*map(self.specs, names)):
            if any(spec is None or spec != specs[0] for spec in specs):
                return False
        return True

    # Changing

    def rewritten(self, match: Match, rewrite: Rewrite) -> Program:
        """The program with the matched operators replaced."""
        at = rewrite.at if rewrite.at is not None else max(match.places, default=0)
        instead: Dict[int, Sequence[OperatorDef]] = dict.fromkeys(match.places, ())
        if rewrite.each:
            assert len(rewrite.operators) == len(match.places)
            instead.update((place, (op,)) for place, op in zip(match.places, rewrite.operators))
        ops: List[OperatorDef] = []
        for place, op in enumerate(self.net.op):
            if place == at and not rewrite.each:
                ops += rewrite.operators
            ops += instead.get(place, (op,))
        if rewrite.rename:
            ops = [_renamed(op, rewrite.rename) for op in ops]
        weights = self.weights.changed(rewrite.weights)
        inputs = [name for name in self.net.external_input if name not in rewrite.weights]
        added = [name for name, value in rewrite.weights.items() if value is not None]
        net = self.net.replace(op=tuple(ops), external_input=(*inputs, *added))
        return Program(net, weights, self._carried(net, rewrite.rename), self.outside)

    def with_operator(self, place: int, op: OperatorDef, weights: Weights) -> Program:
        """The program with another operator at a place, which may read further weights."""
        ops = (*self.net.op[:place], op, *self.net.op[place + 1 :])
        added = [name for name in weights.names if name not in self.weights and name in op.reads()]
        net = self.net.replace(op=ops, external_input=(*self.net.external_input, *added))
        return Program(net, weights, self._carried(net, {}), self.outside)

    def _carried(self, net: NetDef, rename: Mapping[str, str]) -> List[Specs]:
        """What is known of the blobs of ``net``, this program's after a rewrite."""
        known, names = self._inferred[0] if "_inferred" in self.__dict__ else self._known, names_in(net)
        carried = []
        for specs in known:
            specs = {**specs, **{new: specs[old] for old, new in rename.items() if old in specs}}
            carried.append({name: spec for name, spec in specs.items() if name in names})
        return carried


def _renamed(op: OperatorDef, names: Mapping[str, str]) -> OperatorDef:
    if names.keys().isdisjoint((*op.input, *op.output)):
        return op
    return replace(
        op,
        input=tuple(names.get(name, name) for name in op.input),
        output=tuple(names.get(name, name) for name in op.output),
    )
