"""The fast kernel of SpatialBN with the statistics of the batch."""

from __future__ import annotations

from typing import Any, Sequence

from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.norm.batch_kernels import channels_first, forward_run, forward_scratch
from runtime_arm.operators.norm.channel import several_batches, spatial_bn
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec


def _training_only(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Any:
    if op.get_int("is_test"):
        return "only for is_test=0"
    if several_batches(op):
        return "only for the statistics of one batch"
    return channels_first(op, inputs, outputs) if outputs[0].size else "X is empty"


@spatial_bn.kernel("TRAINING", supports=_training_only, scratch=forward_scratch)
def spatial_bn_training(call: Call) -> Run:
    return forward_run(call, relu=False)
