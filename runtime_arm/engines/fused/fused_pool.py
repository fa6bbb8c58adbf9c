"""The fast kernel of the fused pool: MaxPool's kernel, then the limits."""

from __future__ import annotations

from functools import partial
from typing import List, Optional, Sequence

from runtime_arm.engines.conv.epilogue import limits_of
from runtime_arm.engines.pool import pooling
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.fused.fused_pool import fused_max_pool
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if op.has("activation") and not limits_of(op):
        return f"the activation must be Relu or Clip, got {op.get_str('activation')}"
    return pooling.supports(op, inputs, outputs)


@fused_max_pool.kernel("NUMPY", supports=_supports, scratch=pooling.scratch, work=pooling.work, splits_work=True)
def fused_max_pool_numpy(call: Call) -> Run:
    steps: List[Step] = [pooling.max_pool_numpy(call)]
    for part in pooling.results(call):
        steps += [partial(bound, part, part.dtype.type(value), out=part) for bound, value in limits_of(call.op)]
    return in_turn(steps)
