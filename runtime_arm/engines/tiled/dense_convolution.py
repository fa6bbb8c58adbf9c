"""How a dense convolution runs between two layouts: the modules that do it, of which the fastest is taken."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.pointwise import PASS, weight_cost
from runtime_arm.engines.tiled import columns as tiled_convolution
from runtime_arm.engines.tiled import winograd as tiled_winograd
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.registry.kernel import Run, Work, no_hints
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling

FLOAT32 = np.dtype(np.float32)
RUN = 700  # what a copy takes for every stretch that it finds contiguous, in multiplies
FEW_CHANNELS = 8  # up to which a convolution reads (N, C, H, W) by rows of pixels


def is_stem(convolution: Convolution) -> bool:
    """Whether it reads (N, C, H, W) by rows of pixels, for it has few channels."""
    few = convolution.group == 1 and convolution.channels <= FEW_CHANNELS
    return few and not tiled_convolution.is_pointwise(convolution)


def stem_work(convolution: Convolution) -> Work:
    """What that takes."""
    return _columns_work(convolution, 2 * PASS)


class Way(NamedTuple):
    """The functions of a module that convolves between two layouts."""

    work: Work
    bind: Callable[..., Run]
    scratch: Callable[..., Sequence[TensorSpec]]
    hints: Callable[[OperatorDef], Sequence[str]] = no_hints


def by_columns(convolution: Convolution, of: Tiles, between: Tiles, pooling: Optional[Pooling]) -> Way:
    """IM2COL and POINTWISE. between: the layout of the results, whether the output has them or what is pooled of
    them."""
    if gemm.multiplies_small() and between.tile == 1:
        from runtime_arm.engines.tiled import planar_convolution

        if planar_convolution.suits(convolution, between):
            return Way(planar_convolution.work(convolution), planar_convolution.bind, planar_convolution.scratch)
    pointwise = tiled_convolution.is_pointwise(convolution)
    copying = 0.0 if pointwise else PASS / 2 + RUN / max(convolution.channels, 1)
    return Way(
        _columns_work(convolution, copying, between),
        tiled_convolution.bind,
        tiled_convolution.scratch,
        partial(tiled_convolution.hints, convolution=convolution, y=between, dtype=FLOAT32, pooling=pooling),
    )


def by_winograd(of: Tiles, between: Tiles, columns: int) -> Optional[Way]:
    """WINOGRAD by tiles of so many columns; None where such tiles are no use."""
    if gemm.multiplies_small():
        from runtime_arm.engines.tiled import planar_winograd as planar

        if planar.suits(of, between, columns):
            return Way(
                planar.work(of, between, columns),
                partial(planar.bind, columns=columns),
                partial(planar.scratch, columns=columns),
            )
    if columns != of.tile:
        return None
    return Way(
        tiled_winograd.work(of, between),
        tiled_winograd.bind,
        tiled_winograd.scratch,
        partial(tiled_winograd.hints, x=of, y=between, dtype=FLOAT32),
    )


def has_pairs(convolution: Convolution) -> bool:
    """Whether it might run by pairs of columns."""
    window = convolution.window
    return gemm.multiplies_small() and window.stride == (2, 2) and window.kernel == (3, 3)


def by_pairs(convolution: Convolution, of: Tiles, between: Tiles) -> Optional[Way]:
    """WINOGRAD in one dimension; None where that is no use."""
    from runtime_arm.engines.tiled import planar_strided as planar

    if not planar.suits(convolution, of, between):
        return None
    return Way(planar.work(convolution, of, between), planar.bind, planar.scratch)


def _columns_work(convolution: Convolution, copying: float, to: Optional[Tiles] = None) -> Work:
    """The products, for positions of no image too, and a copy of so much an element of the columns."""
    pixels = convolution.batch * math.prod(convolution.window.output)
    positions = pixels if to is None else to.tile**2 * to.batch * to.image_tiles((0, 0))[0] * to.pitch
    products = convolution.filters * convolution.terms * (positions + weight_cost())
    return Work(products, copying * positions * convolution.terms)
