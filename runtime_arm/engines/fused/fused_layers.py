"""Fast kernels of fused layers: the kernel of the layer, then addition and activation, block by block."""

from __future__ import annotations

import math
from typing import List, Optional, Sequence

from runtime_arm.engines.conv import col2im
from runtime_arm.engines.conv.epilogue import Tail, tail_refusal, tail_scratch
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.windows import channels_last
from runtime_arm.operators.conv.transposed import conv_transpose
from runtime_arm.operators.fused.fused_layers import fused_conv_transpose, fused_fc, fused_fc_transposed
from runtime_arm.operators.linear.caffe2 import blas_multiplies, fc_numpy, fc_part, fc_shape
from runtime_arm.registry.blocks import blocks
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def _transposes(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    own = conv_transpose.shape(op, *(*inputs, None)[:3])[0].shape
    return tail_refusal(op, own, inputs, outputs) or col2im.supports(op, inputs, outputs)


def _transpose_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    return [*col2im.scratch(op, inputs, outputs), *tail_scratch(op, inputs, outputs)]


@fused_conv_transpose.kernel("COL2IM", supports=_transposes, scratch=_transpose_scratch)
def fused_conv_transpose_col2im(call: Call) -> Run:
    y, last = call.outputs[0], channels_last(call.op)
    y = y.reshape(-1, y.shape[-1]) if last else y.reshape(*y.shape[:2], math.prod(y.shape[2:]))
    return in_turn([col2im.col2im(call), *_tail_steps(Tail(call, y, -1 if last else -2), y)])


def _multiplies(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    x, w, b = inputs[:3]
    assert x is not None
    assert w is not None
    assert b is not None
    return tail_refusal(op, fc_shape(op, x, w, b)[0].shape, inputs, outputs) or blas_multiplies(op, inputs, outputs)


@fused_fc.kernel("NUMPY", supports=_multiplies, scratch=tail_scratch, splits_work=True)
@fused_fc_transposed.kernel("NUMPY", supports=_multiplies, scratch=tail_scratch, splits_work=True)
def fused_fc_numpy(call: Call) -> Run:
    y, columns = fc_part(call)
    return in_turn([fc_numpy(call), *_tail_steps(Tail(call, y, -1, columns), y)])


def _tail_steps(tail: Tail, y: Array) -> List[Step]:
    return [step for index in blocks(y.shape) for step in tail.steps(y[index], index)]
