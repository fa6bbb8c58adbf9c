"""DEPTHWISE for gradients: those of a depthwise convolution, see ``depthwise_lines``."""

from __future__ import annotations

from functools import partial
from typing import List, Optional, Sequence

import numpy as np

from runtime_arm.engines.conv.depthwise_lines import (
    Lines,
    data_sizes,
    data_steps,
    kernel_steps,
    largest,
    weight_sizes,
    weight_steps,
    wrong_kind,
)
from runtime_arm.engines.conv.operands import wrong_dtype
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.operators.conv.convolution_gradients import conv_gradient
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import Step, in_turn, shaped


def _convolution(op: OperatorDef, inputs: Specs) -> Convolution:
    x, w = inputs[:2]
    assert x is not None
    assert w is not None
    return convolution_of(forward_form(op), x, w)


def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    dy = inputs[2]
    assert dy is not None
    wrong = wrong_dtype(inputs[0]) or wrong_kind(_convolution(op, inputs))
    return wrong or (None if dy.size else "there is nothing to add up")


def _elements(lines: Lines) -> int:
    """Of a channel and an image, in scratch memory."""
    return max(lines.ahead + lines.plane, (len(lines.shifts) + lines.results) * lines.back_plane)


def scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Lines; dY with rows of zeros, or products; a block's part of dW; the kernels that make dX."""
    dtype = outputs[0].dtype
    lines = Lines(_convolution(op, inputs), dtype.itemsize)
    blocks = list(lines.blocks(_elements(lines)))
    sizes = largest((*weight_sizes(lines, block), *data_sizes(lines, block)) for block in blocks)
    kernels = outputs[0].shape[0] * lines.results * len(lines.shifts)
    return [TensorSpec((n,), dtype) for n in (max(sizes[0], sizes[3]), max(sizes[1], sizes[4]), sizes[2], kernels)]


@conv_gradient.kernel("DEPTHWISE", supports=supports, scratch=scratch)
def depthwise_gradient(call: Call) -> Run:
    (x, w, dy), (dw, *rest) = call.inputs, call.outputs
    lines = Lines(_convolution(call.op, call.in_specs), w.itemsize)
    biased = not call.op.get_bool("no_bias")
    steps: List[Step] = [partial(np.add.reduce, dy, axis=(0, 2, 3), out=rest[0])] if biased and rest else []
    dx = rest[1:] if biased else rest
    kernels = shaped(call.scratch[3], len(w), lines.results, len(lines.shifts))
    steps += [partial(dw.fill, 0), *(kernel_steps(lines, w, kernels) if dx else [])]
    for block in lines.blocks(_elements(lines)):
        steps += weight_steps(lines, block, x, dy, dw, call.scratch)
        for target in dx:
            steps += data_steps(lines, block, kernels, dy, target, call.scratch)
    return in_turn(steps)
