"""What a PooledConv can read and write, and what it takes: what its convolution can, and the pool strip by strip; a
first convolution has windows that overlap, too, see ``pooled_stem``."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, Optional, Sequence

from runtime_arm.engines.convolution_ways import is_stem, stem_work
from runtime_arm.engines.epilogue import limits_of
from runtime_arm.engines.pointwise import PASS
from runtime_arm.engines.strip_pooling import Pooling
from runtime_arm.engines.tilings import Option, constant_convolution, dense_convolutions, may_run, tiling
from runtime_arm.kernel import Kernel, Specs
from runtime_arm.layouts import Tiles
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv import Convolution
from runtime_arm.operators.fused import activation_of
from runtime_arm.operators.pool import pool_of
from runtime_arm.operators.pooled_convolution import LAYERS
from runtime_arm.tensor import TensorSpec

POOL = "NUMPY"  # the engine of pools alone, which they may rule out


@tiling("PooledConv", domains=("armnet",))
def pooled_convolutions(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec],
                        plain: Optional[Kernel]) -> Iterator[Option]:
    first, pool = LAYERS.of(op).op
    results = LAYERS.specs(op, inputs)[0]
    convolution = constant_convolution(first, inputs, results.shape)
    if convolution is None or any(inputs[3:4]) or not may_run(pool, POOL):
        return
    pooling = Pooling.of(pool_of(pool, results)) if activation_of(pool) is None else None
    if pooling is None:
        yield from _behind_a_stem(first, pool, convolution, inputs, outputs[0])
        return
    for option in dense_convolutions(first, convolution, inputs, outputs[0], pooling):
        moves = option.work.moves + PASS * (pooling.taps - 1) * outputs[0].size
        yield option._replace(kernel=_of_layer(option.kernel, first), work=option.work._replace(moves=moves))


def _behind_a_stem(first: OperatorDef, pool: OperatorDef, convolution: Convolution, inputs: Specs,
                   y: TensorSpec) -> Iterator[Option]:
    """Windows that overlap, behind a convolution of few channels, and limits of either."""
    results = TensorSpec(convolution.output_shape, y.dtype)
    own = pool_of(pool, results)
    bounded = all(activation_of(op) is None or limits_of(op) for op in (first, pool))
    full = not own.channels_last and bool((own.window.counts() > 0).all())  # no window lies in the padding alone
    if not bounded or not full or not is_stem(convolution) or not may_run(first, "IM2COL"):
        return
    from runtime_arm.engines import pooled_stem

    for tile, border in ((1, 0), (1, 1), (2, 1)):
        if pooled_stem.suits(own.window, tile):
            to, between = Tiles.of(y, tile, border), Tiles.of(results, own.window.stride[0] * tile, 1)
            kernel = pooled_stem.kernel(convolution, own.window, between, to, pool)
            work = pooled_stem.work(stem_work(convolution), own.window, y)
            yield Option((None,) * len(inputs), (to,), _of_layer(kernel, first), work)


def _of_layer(kernel: Kernel, layer: OperatorDef) -> Kernel:
    """The kernel, told another operator than the one that it runs."""
    return replace(
        kernel,
        bind=lambda call: kernel.bind(call.of(layer)),
        scratch=lambda op, inputs, outputs: kernel.scratch(layer, inputs, outputs),
        hints=lambda op: kernel.hints(layer),
    )
