"""Merged operators: a chain of layers in one operator, given as a net in the argument ``layers``."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec


class Layers(NamedTuple):
    """The names of the blobs in such a net: those that it reads, and the results of its layers, one each."""

    inputs: Tuple[str, ...]
    results: Tuple[str, ...]

    def of(self, op: OperatorDef) -> NetDef:
        """The net of an operator. ArgumentError if it has blobs other than these."""
        net = op.get_net("layers")
        known = {*self.inputs, ""}
        for layer, name in zip(net.op, self.results):
            if not known.issuperset(layer.input) or layer.output != (name,):
                raise ArgumentError(op, f"{name!r} must be made of {', '.join(filter(None, known))}")
            known.add(name)
        if len(net.op) != len(self.results):
            raise ArgumentError(op, f"layers must be {len(self.results)} operators, got {len(net.op)}")
        return net

    def specs(self, op: OperatorDef, inputs: Specs) -> List[TensorSpec]:
        """The specs of the layers' results."""
        return [made[0] for _, _, made in self._inferred(op, inputs)]

    def multiply_adds(self, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
        """The sum of the layers' multiply-adds."""
        total = 0
        for layer, given, made in self._inferred(op, inputs):
            count = lookup(layer).multiply_adds
            total += count(layer, given, made) if count else 0
        return total

    def _inferred(self, op: OperatorDef, inputs: Specs) -> Iterator[Tuple[OperatorDef, Specs, List[TensorSpec]]]:
        """The layers one after the other, each with the specs of its inputs and outputs."""
        specs: Dict[str, Optional[TensorSpec]] = dict(zip(self.inputs, inputs))
        for layer in self.of(op).op:
            given = [specs.get(name) for name in layer.input]
            made = lookup(layer).infer(layer, given)
            specs[layer.output[0]] = made[0]
            yield layer, given, made

    def evaluate(self, op: OperatorDef, inputs: Sequence[Any]) -> List[Any]:
        """The result of the last layer, by the reference kernels."""
        blobs: Dict[str, Any] = dict(zip(self.inputs, inputs))
        for layer in self.of(op).op:
            blobs[layer.output[0]] = lookup(layer).evaluate(layer, [blobs.get(name) for name in layer.input])[0]
        return [blobs[self.results[-1]]]


def renamed(op: OperatorDef, inputs: Sequence[str], output: str) -> OperatorDef:
    """The operator as a layer: the inputs that it has are renamed to these."""
    names = tuple(new if old else "" for old, new in zip(op.input, inputs))
    return op.replace(input=names, output=(output,), name="", debug_info="")
