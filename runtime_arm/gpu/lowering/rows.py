"""Fully connected layers and softmax."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

import numpy as np

from runtime_arm.gpu.builder import LANES, PLAIN, Builder, blocks_of
from runtime_arm.gpu.kernels import Define
from runtime_arm.gpu.lowering.convolution import numbers, residual, tail_refusal
from runtime_arm.gpu.lowering.formulas import constant_of, needed, present, tail_of
from runtime_arm.gpu.lowering.registry import lowers
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.linear.caffe2 import takes_transposed
from runtime_arm.operators.norm.softmax import as_stack
from runtime_arm.planning.steps import Step
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.specs import TensorSpec

GROUP = 64
NARROW = 64  # numbers that one work item normalises alone


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if any(spec is None or spec.value is None for spec in inputs[1:3]):
        return "weights and bias must be constant"
    if outputs[0].ndim != 2:
        return "the device makes matrices"
    return tail_refusal(op, inputs, outputs, outputs[0].shape)


@lowers(Kind.FULLY_CONNECTED, supports=_supports)
def fully_connected(builder: Builder, step: Step) -> None:
    x, weights, tail = needed(step.inputs[0]), constant_of(step, 1), needed(tail_of(step.op))
    rows, outputs = step.outputs[0].spec.shape
    depth = x.spec.size // rows
    transposed = takes_transposed(step.op)

    def packed(w: Array) -> Array:
        matrix = w.reshape(depth, outputs).T if transposed else w.reshape(outputs, depth)
        padded = np.zeros((blocks_of(outputs) * LANES, depth), np.float32)
        padded[:outputs] = matrix
        turned: Array = padded.reshape(-1, LANES, depth).transpose(0, 2, 1)
        return turned

    macros: Dict[str, Define] = {"GROUP": GROUP, "LOGARITHM": 0, **tail.defines}
    builder.launch(
        *("rows", "fully_connected", macros, (blocks_of(outputs) * GROUP, rows), (GROUP, 1), builder.read(x, PLAIN)),
        *(builder.constant(weights, ("rows", transposed), packed), numbers(builder, step.in_specs[2], outputs)),
        *(residual(builder, step, tail, PLAIN), numbers(builder, present(step.in_specs, tail.operand), outputs)),
        *(builder.output(step.outputs[0], PLAIN), depth, outputs),
    )


@lowers("Softmax", "onnx.Softmax", "onnx.LogSoftmax")
def softmax(builder: Builder, step: Step) -> None:
    x = needed(step.inputs[0])
    rows, n, inner = as_stack(step.op, x.spec.shape)
    macros: Dict[str, Define] = {
        "GROUP": GROUP,
        "LOGARITHM": int(step.op.type == "LogSoftmax"),
        "RESIDUAL": 0,
        "OPERAND": 0,
    }
    wide = n > NARROW
    count = rows * inner * (GROUP if wide else 1)
    builder.launch(
        *("rows", "softmax_wide" if wide else "softmax", macros, (count,), (GROUP,), builder.read(x, PLAIN)),
        *(builder.output(step.outputs[0], PLAIN), rows, n, inner),
    )
