"""What operators can do with blobs in tiles: for each kind its options, of which the plan takes what fits together.

To add some, write a function under ``@tiling(Kind.X)`` in a module that is imported here (see ``option.py``). It yields
what its kernels can read and write; a layout of None is (N, C, H, W). Every option says what it takes, as ``Work``, so
that the cheapest combination can be found. The options of merged operators are loaded where something is merged (see
``planning/merges``).
"""

from __future__ import annotations

from functools import partial
from typing import Dict, Hashable, List, Optional, Sequence, Tuple

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled import (
    conversion as copies,
)
from runtime_arm.engines.tiled import (  # noqa: F401 (each declares options)
    convolution_options,
    elementwise_options,
    pool_options,
)
from runtime_arm.engines.tiled.columns import STRETCH
from runtime_arm.engines.tiled.option import OPTIONS, Option, is_image
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Kernel, Specs, Work
from runtime_arm.registry.layouts import Layout, Planes, Tiles
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec

SCATTERED = 100  # what an element takes that is copied alone, in multiplies of a large matrix product


def options_of(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]) -> List[Option]:
    """Every option but the plain kernel. None for what is not float32 of four dimensions."""
    kind = lookup(op).kind
    if kind is None or not (is_image(inputs[0]) and is_image(outputs[0])):
        return []
    return [option for options in OPTIONS.get(kind, ()) for option in options(op, inputs, outputs, plain)]


class KnownOptions:
    """``options_of`` for the operators of one net. Nets repeat their layers: convolutions that differ only in names and
    in what their weights hold have the same options, which are made once."""

    def __init__(self) -> None:
        self._convolutions: Dict[Hashable, List[Option]] = {}

    def of(
        self, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
    ) -> Sequence[Option]:
        """See ``options_of``."""
        if lookup(op).kind is not Kind.CONVOLUTION:
            return options_of(op, inputs, outputs, plain)
        read = tuple((spec, spec is None or spec.value is None) for spec in inputs)
        key = op.domain, op.type, op.engine, op.arg, read, tuple(outputs), plain
        if key not in self._convolutions:
            self._convolutions[key] = options_of(op, inputs, outputs, plain)
        return self._convolutions[key]


def calls() -> int:
    """What the calls of a conversion take, in multiplies: it counts in tiny images, and where wide vectors multiply
    fast."""
    return 120_000 if gemm.multiplies_small() else 20_000


def conversion(spec: TensorSpec, source: Layout, target: Layout) -> Tuple[Kernel, Work]:
    """What brings a blob from one layout into another."""
    kernel = Kernel(
        "COPY",
        partial(copies.bind, source=source, target=target),
        splits_work=True,
        reads_slices=True,
        writes_slices=True,
        skips_outside=True,
    )
    if isinstance(source, Planes) and isinstance(target, Planes):
        return kernel, Work(0, calls() + SCATTERED * spec.size)
    if not (isinstance(source, Tiles) and isinstance(target, Tiles)):
        return kernel, Work(0, calls() + SCATTERED / 3 * spec.size)
    stretches = spec.size // max(spec.shape[1], 1)
    return kernel, Work(0, calls() + PASS / 2 * spec.size + STRETCH * stretches)


__all__ = ["KnownOptions", "Option", "conversion", "options_of"]
