"""SeparableBlock: a plan merges a depthwise convolution and its neighbours into one step, if nothing else reads the
results between them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, TypeVar

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.operators.fused.layers import Layers, renamed
from runtime_arm.records import NamedTuple
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec

INPUTS = (
    "x",
    "expand w",
    "expand b",
    "depthwise w",
    "depthwise b",
    "project w",
    "project b",
    "addend",
    "slope",
    "floor",
)
FLOOR = 9  # the place of the depthwise convolution's operand, whose activation is onnx.Max if it takes one
OPERANDS = INPUTS[1:3], (*INPUTS[3:5], "", INPUTS[FLOOR]), INPUTS[5:9]  # what each convolution reads besides its X
EXPANDED, FILTERED, Y = "expanded", "filtered", "y"

Named = TypeVar("Named")


class Parts(NamedTuple):
    """The convolutions of a block. A SeparableBlock has at least one of the outer ones."""

    expand: Optional[OperatorDef]
    depthwise: OperatorDef
    project: Optional[OperatorDef]

    @property
    def inside(self) -> Sequence[OperatorDef]:
        """The convolutions whose results are channels first: all but project."""
        return [op for op in (self.expand, self.depthwise) if op is not None]

    @property
    def present(self) -> Sequence[OperatorDef]:
        """Those that are there."""
        return [op for op in self if op is not None]


def _multiply_adds(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    return _layers(op).multiply_adds(op, inputs, outputs)


@operator("SeparableBlock", domain="armnet", inputs=(10, 10), multiply_adds=_multiply_adds, kind=Kind.SEPARABLE_BLOCK)
def separable_block(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = project(depthwise(expand(X))), with the convolutions as the net ``layers``: a dense one, a depthwise one, and
    one of 1x1, which may have an addend and any activation. Either the first or the last of them may be missing.

    Inputs: X, then W and b of each, the addend and the operand of the last activation, and that of the depthwise
    convolution's. An input that is left out has no name.
    """
    return results_of(op, inputs)[-1:]


@separable_block.reference
def separable_block_reference(op: OperatorDef, *inputs: Optional[Array]) -> Sequence[Any]:
    return _layers(op).evaluate(op, inputs)


def results_of(op: OperatorDef, inputs: Specs) -> List[TensorSpec]:
    """The specs of the results of those layers that are there."""
    return _layers(op).specs(op, inputs)


def parts_of(op: OperatorDef) -> Parts:
    """The layers; their blobs have the names in ``INPUTS`` and those of the results."""
    known = _layers(op)
    layers = dict(zip(known.results, known.of(op).op))
    last = layers[Y]
    if FILTERED in layers:
        return Parts(layers.get(EXPANDED), layers[FILTERED], last)
    return Parts(layers[EXPANDED], last, None)


def _layers(op: OperatorDef) -> Layers:
    made = tuple(layer.output[0] for layer in op.get_net("layers").op if layer.output)
    arrangements = [(EXPANDED, FILTERED, Y), (EXPANDED, Y), (FILTERED, Y)]
    if made not in arrangements:
        raise ArgumentError(op, f"the layers' results must be one of {arrangements}, got {made}")
    return Layers(INPUTS, made)


def block_of(parts: Parts) -> OperatorDef:
    """The operator that does the work of these two or three."""
    results = [name for name, op in zip((EXPANDED, FILTERED), parts) if op is not None]
    if parts.project is None:
        results.pop()
    layers, x = [], INPUTS[0]
    for op, result, operands in zip(parts, (EXPANDED, FILTERED, Y), OPERANDS):
        if op is None:
            continue
        y = result if result in results else Y
        layers.append(renamed(op, (x, *operands), y))
        x = y
    net = NetDef(name="layers", op=tuple(layers))
    names = [name or "" for name in in_order([() if op is None else op.input for op in parts])]
    return OperatorDef.of("SeparableBlock", names, list(parts.present[-1].output), domain="armnet", layers=net)


def in_order(inputs: Sequence[Sequence[Optional[Named]]]) -> List[Optional[Named]]:
    """The inputs of a block, from those of each of its convolutions; a missing one has none."""
    found: Dict[str, Optional[Named]] = {INPUTS[0]: next(given[0] for given in inputs if given)}
    for names, given in zip(OPERANDS, inputs):
        found.update(zip(names, given[1:]))
    return [found.get(name) for name in INPUTS]


__all__ = ["FLOOR", "INPUTS", "Parts", "block_of", "in_order", "parts_of", "results_of", "separable_block"]
