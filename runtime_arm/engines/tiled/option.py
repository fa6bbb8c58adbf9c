"""Defines an option, and the register of options for each kind of operator."""

from __future__ import annotations

from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from runtime_arm.engines.tiled.strips import FLOAT32
from runtime_arm.netdef import OperatorDef
from runtime_arm.records import NamedTuple
from runtime_arm.registry.engine_preferences import is_refused, wanted_engines
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Kernel, Specs, Work
from runtime_arm.registry.layouts import Layout, Tiles
from runtime_arm.registry.specs import TensorSpec

TILES = (1, 2, 4)  # the sizes of tiles that blobs may lie in


class Option(NamedTuple):
    """One way to run an operator: the layouts of its inputs (None also for those without one) and of its outputs."""

    inputs: Tuple[Layout, ...]
    outputs: Tuple[Layout, ...]
    kernel: Kernel
    work: Work


Options = Callable[[OperatorDef, Specs, Sequence[TensorSpec], Optional[Kernel]], Iterator[Option]]
OPTIONS: Dict[Kind, List[Options]] = {}


def tiling(*kinds: Kind) -> Callable[[Options], Options]:
    """Decorator: the options of operators of these kinds.

    The function is given the operator, its specs, and the kernel for blobs (N, C, H, W), None for the reference kernel.
    Input 0 and output 0 are float32 of four dimensions.
    """

    def register(options: Options) -> Options:
        for kind in kinds:
            OPTIONS.setdefault(kind, []).append(options)
        return options

    return register


def is_image(spec: Optional[TensorSpec]) -> bool:
    """Whether a blob can lie in tiles."""
    return spec is not None and len(spec.shape) == 4 and spec.dtype == FLOAT32 and min(spec.shape) > 0


def any_layout(spec: TensorSpec) -> Iterator[Tiles]:
    """The layouts in tiles for an operator to which all of them are alike."""
    yield Tiles.of(spec, 1, 0)
    for tile in TILES:
        yield Tiles.of(spec, tile, 1)


def may_run(op: OperatorDef, engine: str) -> bool:
    """Whether the operator neither rules the engine out nor asks for others alone."""
    wanted = wanted_engines(op)
    return not is_refused(op, engine) and (engine in wanted or set(wanted) <= {"DEFAULT"})


def fixed(specs: Sequence[TensorSpec]) -> Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]]:
    """A kernel's scratch that depends on nothing."""
    return lambda op, inputs, outputs: specs


def at(specs: Specs, index: int) -> Optional[TensorSpec]:
    """The spec of an input, None if it is left out."""
    return specs[index] if len(specs) > index else None
