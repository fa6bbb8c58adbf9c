"""Pools of TensorFlow Lite's integers. INT8: averages, by exact sums of taps in float32 and a division in float64.

NUMPY: maxima, by the kernel of all max pools.
"""

from __future__ import annotations

import math
from functools import partial
from typing import List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.engines.integers.tflite_depthwise import sum_taps
from runtime_arm.engines.integers.tflite_rows import Block, Rows, row_blocks, run_of
from runtime_arm.engines.pool import pooling
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import Window
from runtime_arm.operators.quantised.tflite.parameters import activation_range, affine
from runtime_arm.operators.quantised.tflite.pool import pool_window, quantized_average_pool, quantized_max_pool
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn

MOST_BITS = 24  # of a sum of pixels under a window that is exact in float32


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x = inputs[0]
    assert x is not None
    if x.size == 0:
        return "there is nothing to compute"
    pixels = math.prod(pool_window(op, x).kernel)
    return None if pixels < 1 << (MOST_BITS - 8 * x.dtype.itemsize) else f"sums of {pixels} pixels may exceed 24 bits"


def _cut(op: OperatorDef, x: TensorSpec, workers: int = 1) -> Tuple[Window, Rows, List[Block]]:
    window, channels = pool_window(op, x), x.shape[3]
    rows = Rows(window, channels, 1, window.stride[1])
    row_nbytes = 4 * (math.prod(rows.shape(1)) + window.output[1] * channels)
    return window, rows, row_blocks(x.shape[0], window, channels, row_nbytes, workers)


def _scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """Rows, sums, sums of one part, two buffers to divide in."""
    x = inputs[0]
    assert x is not None
    window, rows, blocks = _cut(op, x)
    most = max((block.rows for block in blocks), default=0)
    sums = most * window.output[1] * x.shape[3]
    sizes = (math.prod(rows.shape(most)), np.float32), *[(sums, np.float32)] * 2, *[(sums, np.float64)] * 2
    return [TensorSpec((size,), dtype) for size, dtype in sizes]


@quantized_average_pool.kernel("INT8", supports=_supports, scratch=_scratch, splits_work=True)
def quantized_average(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    assert call.in_specs[0] is not None
    window, rows, blocks = _cut(call.op, call.in_specs[0], call.workers)
    channels, columns = x.shape[3], window.output[1]
    run = run_of(columns, channels)
    ones = np.ones((*window.kernel, run * channels), np.float32)
    counts = window.counts().astype(np.float64)[..., None]
    low, high = (np.float64(limit) for limit in activation_range(call.op, x.dtype, affine(call.op, "Y", x.dtype)))
    steps: List[Step] = []
    for block in call.mine(blocks):
        shape, extent = rows.shape(block.rows), (block.rows, columns // run, run * channels)
        buffer = call.scratch[0][: math.prod(shape)].reshape(shape)
        sums, part = (scratch[: math.prod(extent)].reshape(extent) for scratch in call.scratch[1:3])
        steps += rows.fill(x[block.image], buffer, block.first, 0)
        steps += sum_taps(window, run, buffer, ones, sums, part)
        out = y[block.image, block.first : block.last]
        work, half = (scratch[: out.size].reshape(out.shape) for scratch in call.scratch[3:])
        divisors = counts[block.first : block.last]
        steps += [
            partial(np.copyto, work, sums.reshape(out.shape)),
            partial(np.copysign, divisors // 2, work, half),
            partial(np.add, work, half, work),
            partial(np.divide, work, divisors, work),
            partial(np.trunc, work, work),
            partial(np.clip, work, low, high, work),
            partial(np.copyto, out, work, casting="unsafe"),
        ]
    return in_turn(steps)


quantized_max_pool.kernel("NUMPY", supports=pooling.supports, scratch=pooling.scratch)(pooling.max_pool_numpy)
