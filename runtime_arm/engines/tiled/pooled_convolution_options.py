"""The options of PooledConv: those of its convolution, with the pool strip by strip."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from runtime_arm.engines.conv.epilogue import tail_scratch
from runtime_arm.engines.conv.pointwise import PASS
from runtime_arm.engines.conv.small_columns import SmallColumns
from runtime_arm.engines.tiled.convolution_options import constant_convolution, dense_convolutions
from runtime_arm.engines.tiled.option import Option, fixed, may_run, tiling
from runtime_arm.engines.tiled.strip_pooling import Pooling
from runtime_arm.engines.tiled.strips import FLOAT32
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.fused.pooled_convolution import LAYERS
from runtime_arm.operators.pool.caffe2 import pool_of
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs, Work
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn

POOL = "NUMPY"  # the engine of a pool alone, which it may rule out


@tiling(Kind.POOLED_CONVOLUTION)
def pooled_convolutions(
    op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec], plain: Optional[Kernel]
) -> Iterator[Option]:
    first, pool = LAYERS.of(op).op
    results = LAYERS.specs(op, inputs)[0]
    convolution = constant_convolution(first, inputs, results.shape)
    pooling = Pooling.of(pool_of(pool, results)) if may_run(pool, POOL) else None
    if convolution is None or pooling is None or any(inputs[3:4]):
        return
    small = _in_small_columns(first, inputs, outputs[0], pooling)
    if small is not None:
        yield small
        return
    for option in dense_convolutions(first, convolution, inputs, outputs[0], pooling):
        moves = option.work.moves + PASS * (pooling.taps - 1) * outputs[0].size
        yield option._replace(kernel=_of_layer(option.kernel, first), work=option.work._replace(moves=moves))


def _in_small_columns(layer: OperatorDef, inputs: Specs, y: TensorSpec, pooling: Pooling) -> Optional[Option]:
    """The option of a small image, by one worker, between blobs (N, C, H, W): nothing else can be faster."""
    small = SmallColumns.of(layer, inputs) if may_run(layer, "IM2COL") and pooling.comes_first(layer) else None
    if small is None or not small.can_pool(y):
        return None

    def bind(call: Call) -> Run:
        return in_turn(small.pooled_steps(call, pooling.kernel, pooling.stride))

    scratch = fixed([TensorSpec((small.scratch,), FLOAT32), *tail_scratch(layer, inputs, [y])])
    return Option((None,) * len(inputs), (None,), _of_layer(Kernel("IM2COL", bind, scratch=scratch), layer), Work(0, 0))


def _of_layer(kernel: Kernel, layer: OperatorDef) -> Kernel:
    """The kernel, told that it runs this layer instead of the whole operator."""
    return kernel._replace(
        bind=lambda call: kernel.bind(call.of(layer)),
        scratch=lambda op, inputs, outputs: kernel.scratch(layer, inputs, outputs),
        hints=lambda op: kernel.hints(layer),
    )
