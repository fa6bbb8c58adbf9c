"""Fast kernels of the fused operators: every engine of Conv with what follows it, and batch normalisation in blocks."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.epilogue import Tail, tail_refusal, tail_scratch
from runtime_arm.engines.conv.operands import convolution_in
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.formulas import Scratch
from runtime_arm.operators.common.statistics import single_or_double
from runtime_arm.operators.conv.convolution import conv
from runtime_arm.operators.fused.fused import fused_batch_norm, fused_conv
from runtime_arm.operators.norm.channel import channel_axis, inference_factors
from runtime_arm.registry.blocks import blocks
from runtime_arm.registry.families import load_operator
from runtime_arm.registry.kernel import Call, Kernel, Run, Specs, Supports
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn


def _declare_engines() -> None:
    """Declares every engine of Conv for FusedConv, too: they all end with ``epilogue.finish``, which knows fused
    operators."""
    load_operator("", "Conv")
    for kernel in conv.kernels.values():
        declare = fused_conv.kernel(
            kernel.engine,
            supports=_unless_refused(kernel),
            scratch=_with_tail(kernel),
            work=kernel.work,
            variants=kernel.variants,
            splits_work=kernel.splits_work,
        )
        declare(kernel.bind)


def _unless_refused(kernel: Kernel) -> Supports:
    def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
        own = convolution_in(op, inputs).output_shape
        return tail_refusal(op, own, inputs, outputs) or kernel.supports(op, inputs, outputs)

    return supports


def _with_tail(kernel: Kernel) -> Scratch:
    def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
        return [*kernel.scratch(op, inputs, outputs), *tail_scratch(op, inputs, outputs)]

    return scratch


_declare_engines()


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
