"""Caffe2's Int8 operators that only move bytes: Int8Concat, Int8Slice, Int8Reshape and others.

Each does what the operator without Int8 in its name does. The output is quantised like X, and Y_scale and Y_zero_point
must say so.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.image.caffe2 import resize_nearest
from runtime_arm.operators.layout.concat import concat
from runtime_arm.operators.layout.reshape import flatten, reshape
from runtime_arm.operators.layout.slice import slice_
from runtime_arm.operators.layout.transpose import channel_shuffle, transpose
from runtime_arm.operators.quantised.caffe2.conversion import (
    output_spec,
    quantization_of,
    require_channels_last,
    require_kept_quantization,
)
from runtime_arm.registry.kernel import Call, Kernel, Specs
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

Reading = Callable[[OperatorDef, int], OperatorDef]  # (an operator, the rank of X) -> the operator that is read instead
READINGS: Dict[str, Reading] = {}  # by type: translates the arguments to those of the operator without Int8 in its name


def _as_it_stands(op: OperatorDef, ndim: int) -> OperatorDef:
    return op


def _channels_last(op: OperatorDef, ndim: int) -> OperatorDef:
    return op.with_args(order="NHWC")


def _only_channels_last(op: OperatorDef, ndim: int) -> OperatorDef:
    require_channels_last(op)
    return op


def _concat(op: OperatorDef, ndim: int) -> OperatorDef:
    """Without ``axis``, joins along the channels of ``order``; without either, along the first dimension."""
    axis = op.get_int("axis", {"NHWC": 3, "NCHW": 1}.get(op.get_str("order", ""), 0))
    if not 0 <= axis < ndim:
        raise ArgumentError(op, f"axis must be 0 to {ndim - 1}, got {axis}")
    return op.with_args(axis=axis, order=None, add_axis=None)


def _slice(op: OperatorDef, ndim: int) -> OperatorDef:
    """``dim``, ``start_idx`` and ``end_idx`` give one dimension and its bounds."""
    if len(op.input) > 1 or not all(map(op.has, ("dim", "start_idx", "end_idx"))):
        return op
    dimension = op.get_int("dim")
    if not 0 <= dimension < ndim:
        raise ArgumentError(op, f"dim must be 0 to {ndim - 1}, got {dimension}")
    starts, ends = [0] * ndim, [-1] * ndim
    starts[dimension], ends[dimension] = op.get_int("start_idx"), op.get_int("end_idx")
    return op.with_args(starts=starts, ends=ends)


def _declare(plain: Operator, inputs: Any, outputs: Any, quantised: Optional[int], reading: Reading) -> None:
    """Declares Int8<plain>. quantised: the number of quantised inputs, None for all."""

    READINGS[f"Int8{plain.type}"] = reading

    @operator(f"Int8{plain.type}", inputs=inputs, outputs=outputs, view=plain.view)
    def schema(op: OperatorDef, x: TensorSpec, *others: Optional[TensorSpec]) -> List[TensorSpec]:
        """The operator without Int8 in its name, applied to quantised bytes."""
        require_kept_quantization(op, x)
        for other in others[: None if quantised is None else quantised - 1]:
            quantization_of(op, "every input", other)
        first, *rest = plain.shape(reading(op, x.ndim), x, *others)
        return [output_spec(op, first.shape), *rest]

    if plain.view:
        return

    @schema.reference
    def reference(op: OperatorDef, x: QuantizedTensor, *others: Any) -> List[Any]:
        arrays = [each.values if isinstance(each, QuantizedTensor) else each for each in (x, *others)]
        return plain.evaluate(reading(op, x.values.ndim), arrays)

    for kernel in plain.kernels.values():
        _borrow(schema, kernel, reading)


def _borrow(schema: Operator, kernel: Kernel, reading: Reading) -> None:
    """Gives the Int8 operator a kernel of the plain one, which sees bytes."""

    def read(op: OperatorDef, inputs: Specs) -> OperatorDef:
        require(op, inputs[0] is not None, "X is required")
        assert inputs[0] is not None
        return reading(op, inputs[0].ndim)

    @schema.kernel(
        kernel.engine,
        supports=lambda op, inputs, outputs: kernel.supports(read(op, inputs), inputs, outputs),
        scratch=lambda op, inputs, outputs: kernel.scratch(read(op, inputs), inputs, outputs),
    )
    def bind(call: Call) -> Any:
        return kernel.bind(call.of(read(call.op, call.in_specs)))


_declare(concat, (1, None), (1, 2), None, _concat)
_declare(slice_, (1, 3), 1, 1, _slice)
_declare(reshape, (1, 2), (1, 2), 1, _as_it_stands)
_declare(flatten, 1, 1, 1, _as_it_stands)
_declare(transpose, 1, 1, 1, _as_it_stands)
_declare(channel_shuffle, 1, 1, 1, _only_channels_last)
_declare(resize_nearest, 1, 1, 1, _channels_last)
