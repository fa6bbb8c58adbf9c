"""Stores the weights of layers packed; an operator in front of the first reader makes a float32 weight of it again,
in the branch of an If where nothing else reads it.

The float32 weight keeps its name; what is stored has a short one, for names of converted networks are often as long as
a small layer's weight.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Callable, Iterator, List, Mapping, Optional, Set, Tuple

from optimize.quantization.layers import Layer, layers_at, layers_within
from optimize.quantization.packing.formats import FLOAT32, FORMATS, Packed, packed_steps
from optimize.quantization.report import CORRECTED, ROUNDED, LayerReport
from optimize.quantization.round_by_data import Rounded
from optimize.quantization.signal import decibels, noise
from optimize.quantization.table import Choice
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal, Rule
from optimize.rewriting.single_assignment import names_held
from optimize.rewriting.subnets import FUNCTIONAL
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec


class _Packing:
    """The rule for one run of ``quantize``; it packs every weight once."""

    def __init__(
        self, choose: Callable[[str], Choice], done: List[LayerReport], rounded: Mapping[Tuple[str, str], Rounded]
    ):
        self._choose, self._done, self._rounded = choose, done, rounded
        self._seen: Set[str] = set()

    def find(self, program: Program, start: int) -> Iterator[Match]:
        for place in range(start, len(program.net.op)):
            for layer in (*layers_at(program, place), *layers_within(program, place)):
                if layer.weight not in self._seen:
                    inside = _branch(program, layer.weight) is not None
                    yield Match((place,) if inside else (), captured={"layer": layer})

    def rewrite(self, program: Program, match: Match) -> Rewrite:
        layer: Layer = match.captured["layer"]
        self._seen.add(layer.weight)
        choice, weight = self._choose(layer.name), program.value(layer.weight)
        assert weight is not None
        if choice.weights == FLOAT32:
            self._done.append(LayerReport(layer.name, choice, weight.nbytes, weight.nbytes, None))
            raise Refusal("it was asked to stay float32")
        own = _own_layer(program, layer.weight)
        rounded = None if own is None else self._rounded.get((choice.weights, own.name))
        packed = _packed(choice.weights, weight, (own or layer).axis, rounded)
        reason = (
            _why_fixed(program, layer.weight) if packed is not None else f"{choice.weights} cannot hold its numbers"
        )
        if packed is None or reason:
            kept = Choice(FLOAT32, choice.activations)
            self._done.append(LayerReport(layer.name, kept, weight.nbytes, weight.nbytes, None, str(reason)))
            raise Refusal(str(reason))
        names = {ending: program.fresh(f"w{len(self._seen)}_{ending}") for ending in packed.stored}
        unpack = packed.unpack(tuple(names.values()), layer.weight)
        stored = [TensorSpec.known(value) for value in packed.stored.values()]
        restored = infer_operator(unpack, stored)[1][0].value
        assert restored is not None
        snr = decibels([noise(weight, restored)])
        steps = () if rounded is None else (ROUNDED,) if rounded.shift is None else (CORRECTED, ROUNDED)
        self._done.append(LayerReport(layer.name, choice, weight.nbytes, packed.nbytes, snr, "", steps))
        weights = {names[ending]: value for ending, value in packed.stored.items()}
        branch = _branch(program, layer.weight)
        if branch is not None:
            (place,) = match.places
            return Rewrite((_with_first(program.net.op[place], branch, unpack),), {**weights, layer.weight: None})
        return Rewrite((unpack,), {**weights, layer.weight: None}, at=min(program.readers(layer.weight)))


def _own_layer(program: Program, weight: str) -> Optional[Layer]:
    """The first layer of the weight that is no other net's: those are the ones that samples rounded, and a layer of a
    branch may have the name of one of them."""
    layers = (layer for place in program.readers(weight) for layer in layers_at(program, place))
    return next((layer for layer in layers if layer.weight == weight), None)


def _branch(program: Program, weight: str) -> Optional[NetDef]:
    """The branch of an If that alone reads the weight, and so can give its memory back; None if others do, too."""
    readers = [program.net.op[place] for place in program.readers(weight)]
    nets = [net for op in readers for net in op.subnets() if weight in net.captures()]
    alone = len(readers) == len(nets) == 1 and readers[0].full_type == "If" and weight not in readers[0].input
    return nets[0] if alone and weight not in nets[0].external_output else None


def _with_first(op: OperatorDef, branch: NetDef, unpack: OperatorDef) -> OperatorDef:
    """An operator whose branch unpacks a weight before it reads it."""
    weight = unpack.output[0]
    place = next(place for place, inner in enumerate(branch.op) if weight in inner.reads())
    net = branch.replace(
        op=(*branch.op[:place], unpack, *branch.op[place:]),
        external_input=tuple(name for name in branch.external_input if name != weight),
    )
    return op.replace(arg=tuple(arg.replace(n=net) if arg.n is branch else arg for arg in op.arg))


def _why_fixed(program: Program, weight: str) -> Optional[str]:
    """Why no operator can write the weight. Branches and bodies read it by its name, which it keeps."""
    for op in program.net.op:
        if weight in names_held(op) and weight not in op.input and op.full_type not in FUNCTIONAL:
            return f"a net of {op.signature()} knows {weight!r} by name"
    return program.why_named(weight, within=False)


def _packed(format: str, weight: Array, axis: int, rounded: Optional[Rounded]) -> Optional[Packed]:
    if rounded is not None and rounded.steps.shape == weight.shape:
        return packed_steps(format, rounded.steps, rounded.grid, axis)
    return FORMATS[format](weight, axis)


def pack_weights(
    choose: Callable[[str], Choice],
    done: List[LayerReport],
    rounded: Mapping[Tuple[str, str], Rounded] = MappingProxyType({}),
) -> Pass:
    """The pass. choose: what a layer is stored in, by its name. done: gets a line for each layer. rounded: weights that
    are rounded already, by format and layer."""
    packing = _Packing(choose, done, rounded)
    return Pass("pack_weights", (Rule(packing.find, packing.rewrite),))
