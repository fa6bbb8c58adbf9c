"""The options of pools."""

from __future__ import annotations

from functools import partial
from typing import Iterator, List, Optional, Sequence, Union

import numpy as np

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.tiled import pool as tiled_pool
from runtime_arm.engines.tiled.elementwise import bind_mean
from runtime_arm.engines.tiled.option import TILES, Option, any_layout, fixed, tiling
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import FLOAT32
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.fused.fused import activation_of
from runtime_arm.operators.pool.caffe2 import pool_of
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Kernel, Specs, Work
from runtime_arm.registry.layouts import Planes, Tiles
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec

STEP = 30_000  # multiplies in the time of a call of NumPy, of which each image takes some


@tiling(Kind.MAX_POOL, Kind.AVERAGE_POOL)
def pools(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]) -> Iterator[Option]:
    x, y = inputs[0], outputs[0]
    assert x is not None
    pool = pool_of(op, x)
    window = pool.window
    if plain is None or len(outputs) > 1 or pool.channels_last or window.stride[0] != window.stride[1]:
        return
    averages = lookup(op).kind is Kind.AVERAGE_POOL
    if window.output == (1, 1) and window.kernel == window.image and averages:
        yield from _means(x)
        return
    if window.stride[0] > 2 or (window.counts() == 0).any():
        return
    if gemm.multiplies_small() and not averages and activation_of(op) is None:
        yield from _in_planes(Pooling.of(pool), x, y)
    combine = np.add if averages else np.maximum
    passes = window.stride[0] * (window.kernel[0] - 1) + window.kernel[1]
    for tile in TILES:
        for border in (0, 1):
            for before in (0, 1) if tile * window.stride[0] == 1 else (1,):
                of, to = Tiles.of(x, tile * window.stride[0], before), Tiles.of(y, tile, border)
                kernel = Kernel(
                    "NUMPY",
                    partial(tiled_pool.bind, pool=pool, combine=combine, x=of, y=to),
                    splits_work=True,
                    scratch=fixed(tiled_pool.scratch(of, to, FLOAT32)),
                    reads_slices=True,
                    writes_slices=True,
                )
                calls = to.tile * (of.tile * window.kernel[0] + to.tile * window.kernel[1])
                further = STEP * calls * (y.shape[0] - 1)
                yield Option((of,), (to,), kernel, Work(0, PASS * passes * y.size + further))


def _in_planes(pooling: Optional[Pooling], x: TensorSpec, y: TensorSpec) -> Iterator[Option]:
    """Of a max pool whose windows are the tiles of planes."""
    of = Tiles.of(x, 2, 1)
    if pooling is None or pooling.stride != 2 or pooling.kernel != (2, 2):
        return
    to = pooling.after(of)
    if (to.height, to.width, to.pitch, to.rows, to.guard) == (*y.shape[2:], of.pitch, of.rows, of.guard):
        kernel = Kernel("NUMPY", tiled_pool.bind_planes, splits_work=True)
        yield Option((Planes(of),), (Planes(to),), kernel, Work(0, PASS * 4 * y.size))


def _means(x: TensorSpec) -> Iterator[Option]:
    """Of a pool over whole images, whose output has one pixel each: a product with a matrix."""
    layouts: List[Union[Tiles, Planes]] = [*any_layout(x), Tiles.of(x, 1, 2)]
    if gemm.multiplies_small() and x.shape[0] == 1:
        layouts += [Planes(Tiles.of(x, *kind)) for kind in ((1, 1), (1, 2), (2, 1), (2, 2))]
    for of in dict.fromkeys(layouts):
        yield Option((of,), (None,), Kernel("GEMM", partial(bind_mean, layout=of)), Work(x.size))
