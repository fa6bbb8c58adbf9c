"""Program: a pair as passes see it. Every blob is written once, and its readers, its shape and its value are known."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import AbstractSet, Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from optimize.rewriting.index import Index
from optimize.rewriting.shapes import USUAL, Choice, Examples, SpecsByName, choices_of, infer_more
from optimize.rewriting.single_assignment import names_mentioned, single_assignment
from optimize.rewriting.weights import Weights
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec

MOST_BEHIND = 1000  # the most blobs to look at to find the content of one


class Match(NamedTuple):
    """The places of the operators that a rule would replace, and the blobs that vanish with them.

    No other operator may read ``inner`` blobs; the driver checks that before the rule is asked to rewrite.
    captured: what else the rewrite needs to know; for patterns, what they name (see ``patterns.py``).
    """

    places: Tuple[int, ...]
    inner: Tuple[str, ...] = ()
    captured: Mapping[str, Any] = {}


class Rewrite(NamedTuple):
    """What replaces the matched operators: new ones, at the place of the last of them unless ``at`` names another.

    weights: constants to add, or to remove where the value is None. rename: old and new names of blobs, to be renamed
    everywhere. each: there is one new operator for each matched one, to be put in its place.
    """

    operators: Tuple[OperatorDef, ...] = ()
    weights: Mapping[str, Optional[Array]] = {}
    rename: Mapping[str, str] = {}
    at: Optional[int] = None
    each: bool = False


class Program:
    """A net in which every blob is written once, with its weights. Immutable; ``rewritten`` gives another.

    Blobs keep their meaning: as long as a name exists it stands for the same values, so that what is known of it stays
    true. A few blobs must be written more than once: state that is fed from outside and overwritten, and blobs that
    sub-nets share. No rule touches operators that read or write them (see ``is_rewritten``). ``outside`` are the names
    that a net around this one knows.
    """

    def __init__(
        self,
        net: NetDef,
        weights: Weights,
        known: Sequence[SpecsByName],
        outside: AbstractSet[str] = frozenset(),
        index: Optional[Index] = None,
        new: Optional[Sequence[OperatorDef]] = None,
        choices: Optional[Sequence[Choice]] = None,
    ):
        """index: the net's index. new: the operators whose outputs may be missing in ``known``. choices: what is
        inferred from ``known``. The caller gives those that it has.
        """
        self.net = net
        self.weights = weights
        self.outside = outside
        self._known = known
        self._index = Index(net) if index is None else index
        self._new = net.op if new is None else new
        self._choices = choices

    @staticmethod
    def of(pair: Pair, unpacked: bool = False, examples: Optional[Examples] = None) -> Program:
        """The program of a checked pair.

        unpacked: new weights are written as Caffe2 writes them. examples: shapes, by input, with which the net runs.
        They help to know the shapes of other blobs; sizes that the pair leaves open stay open.
        """
        fed = (info.name for info in pair.inputs)
        net = single_assignment(pair.predict_net)
        variable = {*fed, *(name for op in net.op for name in op.output)}
        weights = Weights(pair.init_net, variable, unpacked)
        choices = choices_of(net, _constants(net.op, weights), pair.inputs, examples)
        return Program(net, weights, [choice.inputs for choice in choices], choices=choices)

    def pair(self, like: Pair) -> Pair:
        """The pair that computes this, with the inputs, outputs and metadata of ``like``; checked."""
        return like.replace(init_net=self.weights.init_net, predict_net=self.net).check()

    # Operators, and which of them read what

    def operators(self, match: Match) -> List[OperatorDef]:
        """The matched operators in the order of ``match.places``."""
        return [self.net.op[place] for place in match.places]

    def writer(self, name: str) -> Optional[int]:
        """The place of the operator that writes the blob, the last one; None for what comes from outside."""
        return max(self._index.writers(name), default=None)

    def readers(self, name: str) -> Sequence[int]:
        """The places of the operators that read the blob, sub-nets included."""
        return self._index.readers(name)

    def is_rewritten(self, name: str) -> bool:
        """Whether an operator writes the blob although it exists already."""
        writes = self._index.writes(name)
        return writes > 1 or (writes == 1 and name in self._inputs)

    @cached_property
    def _inputs(self) -> AbstractSet[str]:
        return frozenset(self.net.external_input)

    def _mentions(self, name: str) -> bool:
        return self._index.mentions(name) or name in self._inputs or name in self.net.external_output

    def fresh(self, stem: str) -> str:
        """A name that no blob has: ``stem``, or ``stem`` with a number."""
        name, number = stem, 0
        while self._mentions(name) or self.weights.mentions(name) or name in self.outside:
            number += 1
            name = f"{stem}_{number}"
        return name

    # Why rules may not touch something: the reason, or None

    def why_named(self, name: str, within: bool = True) -> Optional[str]:
        """Why the blob must keep its name. within: whether sub-nets that know it are a reason."""
        if name in self.net.external_output:
            return f"{name!r} is an output of the net"
        if name in self.outside:
            return f"the net around this one knows {name!r}"
        if self.is_rewritten(name):
            return f"{name!r} is written more than once"
        if within and self._index.holds(name):
            return f"a sub-net knows {name!r} by name"
        if name in self._inputs and name not in self.weights:
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
            again = [name for name in (*op.reads(), *op.output) if name and self.is_rewritten(name)]
            if again:
                return f"{again[0]!r} is written more than once"
        reasons = (self.why_kept(name, match.places) for name in match.inner)
        return next((reason for reason in reasons if reason), None)

    # What is known of blobs

    @cached_property
    def _inferred(self) -> Tuple[List[SpecsByName], Mapping[int, str]]:
        results = self._choices
        if results is None:
            constants = _constants(self._new, self.weights)
            net = NetDef(op=tuple(self._new))
            results = [Choice(known, *infer_more(net, {**constants, **known})) for known in self._known]
        return [one.found for one in results], {place: stop.reason for place, stop in results[0].stops.items()}

    @property
    def inference_refusals(self) -> Mapping[int, str]:
        """By place, why shape inference stopped at an operator, with its name; after a rewrite, for the new operators
        alone, by their places among these.
        """
        return self._inferred[1]

    def value(self, name: str) -> Optional[Array]:
        """The content of a blob that is a weight, else None."""
        return self.weights.value(name)

    def content(self, name: str) -> Optional[Array]:
        """The content of a blob that is a weight or follows from weights and sizes that are not open, else None.

        That its content is the same for each choice of open sizes would not be enough: for others it may differ.
        """
        if name in self.weights:
            return self.value(name)
        spec = self.specs(name)[0]
        return None if spec is None or spec.value is None or not self._is_settled(name) else spec.value

    def integer(self, name: str) -> Optional[int]:
        """The number that a blob of one integer or bool holds, if its content is known (see ``content``), else None."""
        found = self.content(name)
        is_one = found is not None and found.size == 1 and found.dtype.kind in "biu"
        return int(found.reshape(-1)[0]) if found is not None and is_one else None

    def _is_settled(self, name: str) -> bool:
        """Whether the content of a blob, which is known, does not depend on open sizes."""
        waiting, seen = [name], {name}
        while waiting:
            place = self.writer(waiting.pop())
            if place is None or len(seen) > MOST_BEHIND:
                return False
            op = self.net.op[place]
            if any(self.is_rewritten(blob) for blob in (*op.input, *op.output) if blob):
                return False
            if self._reads_fixed_sizes(op):
                continue
            for read in op.input:
                if not read or read in seen or read in self.weights:
                    continue
                seen.add(read)
                if any(spec is None for spec in self.specs(read)):
                    return False
                if all(spec is not None and spec.value is not None for spec in self.specs(read)):
                    waiting.append(read)
                elif None in (self.dims(read) or (None,)):  # nothing but its shape can have an effect
                    return False
        return True

    def _reads_fixed_sizes(self, op: OperatorDef) -> bool:
        """Whether an operator picks out of a shape only sizes that are not open; other sizes of the shape may be."""
        place = self.writer(op.input[0]) if op.type == "Gather" and op.input else None
        shape = op if place is None else self.net.op[place]
        if shape.type != "Shape" or self.is_rewritten(shape.input[0]):
            return False
        if shape is op:
            places: Any = shape.get_ints("axes")
        else:
            places = None if shape.arg else self.value(op.input[1])
        dims = self.dims(shape.input[0])
        if places is None or dims is None or not np.size(places):
            return False
        return all(-len(dims) <= at < len(dims) and dims[at] is not None for at in np.reshape(places, -1))

    @property
    def known_specs(self) -> Sequence[SpecsByName]:
        """Every blob's spec, None where it is not known, for each choice of the sizes that the inputs leave open."""
        return self._inferred[0]

    def specs(self, name: str) -> List[Optional[TensorSpec]]:
        """The blob's spec for each choice of the sizes that the inputs leave open."""
        return [specs.get(name) for specs in self._inferred[0]]

    def dims(self, name: str) -> Optional[Tuple[Optional[int], ...]]:
        """The blob's shape, with None for sizes that follow from open ones; None if its rank is not known."""
        shapes = [spec.shape for spec in self.specs(name) if spec is not None]
        if len(shapes) < len(self._known) or len(set(map(len, shapes))) > 1:
            return None
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes))

    def have_same_shape(self, *names: str, usually: bool = False) -> bool:
        """Whether the blobs are known to have one shape and dtype.

        usually: for the usual sizes of inputs, which is enough for operators that broadcast.
        """
        choices = zip(*map(self.specs, names))
        for specs in islice(choices, USUAL) if usually else choices:
            if any(spec is None or spec != specs[0] for spec in specs):
                return False
        return True

    # Changing

    def rewritten(self, match: Match, rewrite: Rewrite) -> Program:
        """The program with the matched operators replaced."""
        instead: Dict[int, Sequence[OperatorDef]] = dict.fromkeys(match.places, ())
        if rewrite.each:
            assert len(rewrite.operators) == len(match.places)
            instead.update((place, (op,)) for place, op in zip(match.places, rewrite.operators))
        for name in rewrite.rename:
            for place in (*self._index.writers(name), *self.readers(name)):
                instead.setdefault(place, (self.net.op[place],))
        at = rewrite.at if rewrite.at is not None else max(match.places, default=0)
        if rewrite.operators and not rewrite.each:
            instead[at] = (*rewrite.operators, *instead.get(at, (self.net.op[at],)))
        renamed = {place: [_renamed(op, rewrite.rename) for op in ops] for place, ops in instead.items()}
        weights = self.weights.changed(rewrite.weights)
        return self._with(renamed, weights, rewrite.weights, rewrite.rename)

    def with_operator(self, place: int, op: OperatorDef, weights: Weights) -> Program:
        """The program with another operator at a place, which may read further weights."""
        added = {name: weights.value(name) for name in op.reads() if name in weights and name not in self.weights}
        return self._with({place: [op]}, weights, added, {})

    def _with(
        self,
        instead: Mapping[int, Sequence[OperatorDef]],
        weights: Weights,
        changed: Mapping[str, Optional[Array]],
        rename: Mapping[str, str],
    ) -> Program:
        """The program with other operators at some places and other weights. changed: the weights that were added or
        removed.
        """
        ops: List[OperatorDef] = []
        new: List[int] = []
        start = 0
        for place in sorted(instead):
            ops += self.net.op[start:place]
            new += range(len(ops), len(ops) + len(instead[place]))
            ops += instead[place]
            start = place + 1
        net = self.net.replace(op=(*ops, *self.net.op[start:]))
        if changed:
            inputs = [name for name in self.net.external_input if name not in changed]
            added = [name for name, value in changed.items() if value is not None]
            net = net.replace(external_input=(*inputs, *added))
        index = self._index.changed(self.net, sorted(instead), net, new)
        gone = set(changed).union(*(names_mentioned(self.net.op[place]) for place in instead))
        gone -= {name for name in gone if index.mentions(name)}.union(net.external_input, net.external_output)
        known = [_carried(specs, gone, rename) for specs in self.known_specs]
        return Program(net, weights, known, self.outside, index, [net.op[place] for place in new])


def _constants(ops: Sequence[OperatorDef], weights: Weights) -> SpecsByName:
    """The weights that the operators read."""
    return {name: weights.spec(name) for op in ops for name in op.reads() if name in weights}


def _carried(specs: SpecsByName, gone: AbstractSet[str], rename: Mapping[str, str]) -> SpecsByName:
    """What is still known of blobs when some are gone and some have other names."""
    renamed = {name: specs[old] for old, name in rename.items() if specs.get(old) is not None}
    carried = dict(specs)  # far faster than to look at each of a large net's blobs
    for name in gone:
        carried.pop(name, None)
    carried.update(renamed)
    return carried


def _renamed(op: OperatorDef, names: Mapping[str, str]) -> OperatorDef:
    if names.keys().isdisjoint((*op.input, *op.output)):
        return op
    return op.replace(
        input=tuple(names.get(name, name) for name in op.input),
        output=tuple(names.get(name, name) for name in op.output),
    )
