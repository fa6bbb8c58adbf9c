"""IM2COL and POINTWISE between blobs in tiles, with the channels first inside: for deep layers of few pixels.

columns   A[(ky, kx, c), lane]  = X[position + shift, c]        one copy a tap, which transposes it
multiply  Y[m, lane]            = W^T @ A                       the products of ``products.py``
scatter   the output's [position, m] = Y
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from runtime_arm.engines.tiled import columns as by_columns
from runtime_arm.engines.tiled.algorithm import output_layout
from runtime_arm.engines.tiled.epilogue import bias
from runtime_arm.engines.tiled.planar import products as planar
from runtime_arm.engines.tiled.planar.products import FILTERS, LANES, MOST_DEPTH, Filters, padded
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import FLOAT32, Target, body, clear, clear_borders, in_turn, parts_by_filters
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.conv.convolution import Convolution
from runtime_arm.records import record
from runtime_arm.registry.kernel import Call, Run, Work, no_hints
from runtime_arm.registry.layouts import Strip, Tiles
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import ZERO, Step, copy, shaped

LEAST_POSITIONS = 48  # below, too many of the 64 lanes are computed in vain


@record(frozen=True, eq=False, repr=False)
class PlanarColumns:
    """The algorithm by columns whose rows are channels. All positions of the image are one strip."""

    convolution: Convolution
    x: Tiles
    y: Tiles
    pooling: Optional[Pooling] = None

    variants = ()
    reads_slices = True
    writes_slices = True
    hints = staticmethod(no_hints)

    @property
    def engine(self) -> str:
        return by_columns.engine_of(self.convolution)

    def suits(self) -> bool:
        """Whether this is the faster way to such results."""
        convolution, y = self.convolution, self.y
        whole = y.image_tiles((0, 0))[0] * y.pitch
        fits = y.tile == y.batch == 1 and whole >= LEAST_POSITIONS
        return fits and planar.suits(whole, convolution.terms, convolution.filters)

    @property
    def work(self) -> Work:
        return planar.work(LANES, self.convolution.terms, self.convolution.filters)

    def scratch(self, op: OperatorDef) -> Sequence[TensorSpec]:
        """Results on the way into a slice, or to be pooled; columns; products; for deep matrices those of a part."""
        terms, filters = self.convolution.terms, self.convolution.filters
        landing = LANES * filters * (1 if self.pooling is None else self.pooling.taps)
        products = padded(filters) * LANES
        part = products if terms > MOST_DEPTH else 0
        return [TensorSpec((size,), FLOAT32) for size in (landing, terms * LANES, products, part)]

    def bind(self, call: Call) -> Run:
        to = output_layout(self)
        steps: List[Step] = clear_borders(call, to)
        filters = call.packed("planar", lambda: Filters(by_columns.by_channel(call.inputs[1]), LANES))
        strips, mine = parts_by_filters(call, self.y, self.y.body, FILTERS)
        filters = filters.columns(mine)
        columns = shaped(call.scratch[1], 1, self.convolution.terms, LANES)
        products, spare = (
            buffer[: padded(filters.width) * LANES].reshape(1, -1, LANES) for buffer in call.scratch[2:4]
        )
        for strip in strips:
            target = Target(to, strip, mine)
            for plane, pieces in by_columns.landings(call, target, bias(call, mine), self.pooling):
                steps += self._gather(call, strip, plane, columns[0])
                steps += filters.multiply(columns, products, spare)
                for positions, pixels, then, _ in pieces:
                    results = products[0, : filters.width, : strip.size]
                    steps += planar.scatter(results[:, positions], pixels)
                    steps += then
            steps += clear(call, to, strip, mine)
        return in_turn(steps)

    def _gather(self, call: Call, strip: Strip, plane: Tuple[int, int], columns: Array) -> List[Step]:
        """columns: (terms, lanes)."""
        convolution, x = self.convolution, self.x
        used = columns[:, : strip.size]
        zeros = copy(columns[:, strip.size :], ZERO)
        if by_columns.is_pointwise(convolution):
            return [zeros, *planar.gather(body(call.inputs[0], x, strip)[plane], used)]
        taps = used.reshape(*convolution.window.kernel, x.channels, strip.size).transpose(3, 0, 1, 2)
        return [zeros, *by_columns.gather(call.inputs[0], convolution, x, strip, plane, taps)]
