"""Fast kernels of FusedConv: every engine of Conv, with addition and activation."""

from __future__ import annotations

from typing import Optional, Sequence

from runtime_arm.engines.conv.epilogue import tail_refusal, tail_scratch
from runtime_arm.engines.conv.operands import convolution_in
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.formulas import Scratch
from runtime_arm.operators.conv.convolution import conv
from runtime_arm.operators.fused.fused import fused_conv
from runtime_arm.registry.families import load_operator
from runtime_arm.registry.kernel import Kernel, Specs, Supports
from runtime_arm.registry.specs import TensorSpec


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
