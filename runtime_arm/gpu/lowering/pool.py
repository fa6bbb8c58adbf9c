"""Pools and global pools."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

import numpy as np

from runtime_arm.gpu.builder import BLOCKS, Builder, blocks_of, image_group
from runtime_arm.gpu.kernels import Define
from runtime_arm.gpu.lowering.formulas import needed, tail_of
from runtime_arm.gpu.lowering.registry import lowers
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.pool.caffe2 import pool_of
from runtime_arm.planning.steps import Step
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.specs import TensorSpec

GROUP = 64
WIDE = 16  # pixels from which on a group shares a plane


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    assert inputs[0] is not None
    pool = pool_of(op, inputs[0])
    if pool.window.ndim != 2 or pool.channels_last:
        return "the device pools images (N, C, H, W)"
    if len(op.output) > 1 and op.output[1]:
        return "the device gives no indices"
    if int(pool.window.counts().min()) == 0:
        return "a window has no pixels"
    return "the device does not have its activation" if tail_of(op) is None else None


@lowers(Kind.MAX_POOL, Kind.AVERAGE_POOL, supports=_supports)
def pool(builder: Builder, step: Step) -> None:
    x, tail = needed(step.inputs[0]), needed(tail_of(step.op))
    pool = pool_of(step.op, x.spec)
    window = pool.window
    maximum = int(step.schema.kind is Kind.MAX_POOL)
    planes = pool.batch * blocks_of(pool.channels)
    macros: Dict[str, Define] = {"MAXIMUM": maximum, "GROUP": GROUP, **tail.defines}
    read, y = builder.read(x, BLOCKS), builder.output(step.outputs[0], BLOCKS)
    pixels = window.image[0] * window.image[1]
    whole = window.output == (1, 1) and window.kernel == window.image and not any(window.head)
    if whole and pixels >= WIDE and (maximum or float(pool.divisors[0, 0]) == pixels):
        builder.launch("pool", "global_pool", macros, (planes * GROUP,), (GROUP,), read, y, planes, pixels)
        return
    divisors = builder.nothing() if maximum else builder.numbers((1 / pool.divisors).astype(np.float32))
    size = (window.output[1], window.output[0], planes)
    builder.launch(
        *("pool", "pool", macros, size, image_group(*size), read, divisors, y, planes),
        *(*window.image, *window.output, *window.kernel, *window.stride, *window.head, *window.dilation),
    )
