"""The fast kernel of FusedBatchNorm, in blocks."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.epilogue import Tail, tail_refusal, tail_scratch
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.operators.fused.fused_batch_norm import fused_batch_norm
from runtime_arm.operators.norm.channel import channel_axis, inference_factors
from runtime_arm.registry.blocks import blocks
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def _floats_alike(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    assert inputs[0] is not None
    return tail_refusal(op, inputs[0].shape, inputs, outputs) or single_or_double(op, inputs, outputs)


@fused_batch_norm.kernel("NUMPY", supports=_floats_alike, scratch=tail_scratch, splits_work=True)
def fused_batch_norm_numpy(call: Call) -> Run:
    x, y = call.inputs[0], call.outputs[0]
    axis = channel_axis(call.op, x.ndim)
    around = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))
    x, y = x.reshape(around), y.reshape(around)
    prepare, factor, shift = inference_factors(call)
    factors, shifts = (np.broadcast_to(vector.reshape(-1, 1), around) for vector in (factor, shift))
    tail = Tail(call, y, 1)
    steps: List[Step] = []
    for index in call.mine(blocks(around)):
        part = y[index]
        steps.append(partial(np.multiply, x[index], factors[index], out=part))
        steps.append(partial(np.add, part, shifts[index], out=part))
        steps += tail.steps(part, index)
    return in_turn([prepare, *steps] if prepare else steps)
