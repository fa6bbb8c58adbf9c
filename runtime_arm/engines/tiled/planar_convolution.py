"""IM2COL and POINTWISE between blobs in tiles, inside of which the channels come first: for deep layers of few pixels.

columns   A[(ky, kx, c), position] = X[position + shift, c]     one copy a tap, which turns it
multiply  Y[m, position]           = W^T @ A                    the products of ``planar``
scatter   the output's [position, m] = Y
"""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.tiled import columns as tiled_convolution
from runtime_arm.engines.tiled import planes as planar
from runtime_arm.engines.tiled import strips as tiled
from runtime_arm.engines.tiled.epilogue import bias
from runtime_arm.engines.tiled.planes import POSITIONS
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.registry.kernel import Call, Run, Work
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, shaped

if TYPE_CHECKING:
    from runtime_arm.engines.tiled.strip_pooling import Pooling


LEAST_POSITIONS = 48  # below, too many of the 64 are computed in vain


def suits(convolution: Convolution, y: Tiles) -> bool:
    """Whether this is the faster way to such results."""
    whole = y.image_tiles((0, 0))[0] * y.pitch
    fits = y.tile == y.batch == 1 and whole >= LEAST_POSITIONS
    return fits and planar.suits(whole, convolution.terms, convolution.filters)


def work(convolution: Convolution) -> Work:
    """What products and copies take."""
    return planar.work(POSITIONS, convolution.terms, convolution.filters)


def scratch(
    op: OperatorDef, convolution: Convolution, y: Tiles, dtype: np.dtype, pooling: Optional[Pooling] = None
) -> Sequence[TensorSpec]:
    """Results on the way into a slice, or to be pooled; columns; products; for deep matrices those of a part."""
    landing = POSITIONS * convolution.filters * (1 if pooling is None else pooling.taps)
    products = planar.padded(convolution.filters) * POSITIONS
    part = products if convolution.terms > planar.MOST_DEPTH else 0
    return [TensorSpec((size,), dtype) for size in (landing, convolution.terms * POSITIONS, products, part)]


def bind(call: Call, convolution: Convolution, x: Tiles, y: Tiles, pooling: Optional[Pooling] = None) -> Run:
    """y: the layout of the convolution's results, whether the output has them or what is pooled of them."""
    to = y if pooling is None else pooling.after(y)
    steps: List[Step] = tiled.clear_borders(call, call.outputs[0], to)
    filters = call.packed("planar", lambda: planar.Filters(tiled_convolution.by_channel(call.inputs[1]), POSITIONS))
    strips, mine = tiled.parts_by_filters(call, y, y.body, planar.FILTERS)
    filters = filters.columns(mine)
    columns = shaped(call.scratch[1], 1, convolution.terms, POSITIONS)
    products, spare = (
        buffer[: planar.padded(filters.width) * POSITIONS].reshape(1, -1, POSITIONS) for buffer in call.scratch[2:4]
    )
    for strip in strips:
        landings = tiled_convolution.landings(call, to, strip, bias(call, mine), mine, pooling)
        for plane, pieces in landings:
            steps += _gather(call, convolution, x, strip, plane, columns[0])
            steps += filters.multiply(columns, products, spare)
            for positions, target, then in pieces:
                results = products[0, : filters.width, : strip.size]
                steps += planar.scatter(results[:, positions], target)
                steps += then
        steps += tiled.clear(call, to, strip, mine)
    return tiled.in_turn(steps)


def _gather(
    call: Call, convolution: Convolution, x: Tiles, strip: Strip, plane: Tuple[int, int], columns: Array
) -> List[Step]:
    """columns: (terms, 64)."""
    used = columns[:, : strip.size]
    zeros = copy(columns[:, strip.size :], ZERO)
    if tiled_convolution.is_pointwise(convolution):
        return [zeros, *planar.gather(tiled.body(call.inputs[0], x, strip)[plane], used)]
    taps = used.reshape(*convolution.window.kernel, x.channels, strip.size).transpose(3, 0, 1, 2)
    return [zeros, *tiled_convolution.gather(call.inputs[0], convolution, x, strip, plane, taps)]
