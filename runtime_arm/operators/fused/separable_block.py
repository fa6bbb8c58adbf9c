"""SeparableBlock: a plan merges three convolutions into one, if nobody reads the results between them."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.operators.fused.layers import Layers, renamed
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import operator
from runtime_arm.registry.specs import TensorSpec

INPUTS = ("x", "expand w", "expand b", "depthwise w", "depthwise b", "project w", "project b", "addend", "slope")
LAYERS = Layers(INPUTS, ("expanded", "filtered", "y"))


@operator(
    "SeparableBlock", domain="armnet", inputs=(9, 9), multiply_adds=LAYERS.multiply_adds, kind=Kind.SEPARABLE_BLOCK
)
def separable_block(op: OperatorDef, *inputs: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = project(depthwise(expand(X))), with the three convolutions as the net ``layers``: a dense one, a depthwise
    one, and one of 1x1, which may have an addend and any activation.

    Inputs: X, then W and b of each, the addend and the activation's operand. An input that is left out has no name.
    """
    return results_of(op, inputs)[-1:]


@separable_block.reference
def separable_block_reference(op: OperatorDef, *inputs: Optional[Array]) -> Sequence[Any]:
    return LAYERS.evaluate(op, inputs)


def results_of(op: OperatorDef, inputs: Specs) -> List[TensorSpec]:
    """The specs of the three layers' results."""
    return LAYERS.specs(op, inputs)


def layers(op: OperatorDef) -> NetDef:
    """The three operators; their blobs have the names in ``LAYERS``."""
    return LAYERS.of(op)


def block_of(expand: OperatorDef, depthwise: OperatorDef, project: OperatorDef) -> OperatorDef:
    """The operator that does the work of these three."""
    x, (expanded, filtered, y) = INPUTS[0], LAYERS.results
    net = NetDef(
        name="layers",
        op=(
            renamed(expand, (x, *INPUTS[1:3]), expanded),
            renamed(depthwise, (expanded, *INPUTS[3:5]), filtered),
            renamed(project, (filtered, *INPUTS[5:9]), y),
        ),
    )
    names = [expand.input[0], *_operands(expand)[:2], *_operands(depthwise)[:2], *_operands(project)]
    return OperatorDef.of("SeparableBlock", names, list(project.output), domain="armnet", layers=net)


def _operands(op: OperatorDef) -> Sequence[str]:
    """What a convolution reads besides X: W, b, addend, operand; "" for what it does not read."""
    return [*op.input[1:], "", "", "", ""][:4]


__all__ = ["block_of", "layers", "results_of", "separable_block"]
