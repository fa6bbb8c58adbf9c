"""onnxruntime's elementwise quantised operators (QLinearAdd, QLinearMul, QLinearSigmoid and others), Where and Concat.

X, Y and outputs are uint8 or int8, each followed by its scale and its zero point (0 if left out), which hold one
element. Formulas are evaluated in float32 in onnxruntime's order, so that ties round alike. Source: onnxruntime's
ContribOperators.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast
from runtime_arm.operators.common.tables import bind_lookup, lookup_scratch, table_of
from runtime_arm.operators.quantised.parameters import (
    EIGHT_BITS,
    Parameters,
    all_known,
    dequantized,
    parameters,
    quantized,
    require_dtype,
    require_parameters,
    saturated,
)
from runtime_arm.registry.blocks import block_size, cut
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import Operator, axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import in_turn

Spec = Optional[TensorSpec]
DOMAIN = "com.microsoft"


# QLinearAdd and QLinearMul


def _binary(
    op: OperatorDef,
    a: TensorSpec,
    a_scale: Spec,
    a_zero_point: Spec,
    b: TensorSpec,
    b_scale: Spec,
    b_zero_point: Spec,
    c_scale: Spec,
    c_zero_point: Spec = None,
) -> List[TensorSpec]:
    require_dtype(op, "A", a, EIGHT_BITS)
    require(op, a.dtype == b.dtype, "A and B must have one type", a, b)
    require_parameters(op, "A", a.dtype, a_scale, a_zero_point)
    require_parameters(op, "B", b.dtype, b_scale, b_zero_point)
    require_parameters(op, "C", a.dtype, c_scale, c_zero_point)
    return [TensorSpec(broadcast(op, [a, b]), a.dtype)]


@operator("QLinearAdd", inputs=(7, 8), domain=DOMAIN)
def qlinear_add(op: OperatorDef, *inputs: Any) -> List[TensorSpec]:
    """C = saturate(round((a_scale * (A - a_zero) + b_scale * (B - b_zero)) / c_scale + c_zero)).

    A and B broadcast. onnxruntime itself uses fused multiply-add on CPUs with AVX2 and fixed point on ARM; it differs
    from this by one step in a few of a million elements.
    """
    return _binary(op, *inputs)


@operator("QLinearMul", inputs=(7, 8), domain=DOMAIN)
def qlinear_mul(op: OperatorDef, *inputs: Any) -> List[TensorSpec]:
    """C = saturate(round((A - a_zero) * (B - b_zero) * (a_scale * b_scale / c_scale) + c_zero)); A and B broadcast."""
    return _binary(op, *inputs)


def _binary_parameters(op: OperatorDef, inputs: Sequence[Any]) -> Tuple[Parameters, Parameters, Parameters]:
    c_zero_point = inputs[7] if len(inputs) > 7 else None
    return (
        parameters(op, "A", inputs[1], inputs[2]),
        parameters(op, "B", inputs[4], inputs[5]),
        parameters(op, "C", inputs[6], c_zero_point),
    )


def _sum_factors(op: OperatorDef, inputs: Sequence[Any]) -> Tuple[Any, Any, Any]:
    """Offset and factors of the sum: C = fixed + A * ratio_a + B * ratio_b."""
    a, b, c = _binary_parameters(op, inputs)
    ratio_a, ratio_b = a.scale / c.scale, b.scale / c.scale
    zero_a, zero_b, zero_c = (np.float32(p.zero_point) for p in (a, b, c))
    return ratio_a, ratio_b, zero_c - (ratio_a * zero_a + ratio_b * zero_b)


@qlinear_add.reference
def qlinear_add_reference(op: OperatorDef, *inputs: Any) -> List[Any]:
    ratio_a, ratio_b, fixed = _sum_factors(op, inputs)
    reals = fixed + inputs[0].astype(np.float32) * ratio_a + inputs[3].astype(np.float32) * ratio_b
    return [saturated(np.rint(reals), inputs[0].dtype)]


@qlinear_mul.reference
def qlinear_mul_reference(op: OperatorDef, *inputs: Any) -> List[Any]:
    a, b, c = _binary_parameters(op, inputs)
    product = (inputs[0].astype(np.int32) - a.zero_point) * (inputs[3].astype(np.int32) - b.zero_point)
    reals = product.astype(np.float32) * (a.scale * b.scale / c.scale) + np.float32(c.zero_point)
    return [saturated(np.rint(reals), inputs[0].dtype)]


def _only_operands_vary(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    parameters = [spec for i, spec in enumerate(inputs) if i not in (0, 3)]
    return None if all_known(parameters) else "scales and zero points must be constants"


def _two_blocks(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return [TensorSpec((block_size(outputs[0].shape),), np.float32)] * 2


def _bind_blocks(call: Call, combine: Callable[[Array, Array], None]) -> Run:
    """A run of ``combine(a, b)`` on float32 copies of blocks of A and B. Its result, in a, is rounded and saturated."""
    limits = np.iinfo(call.outputs[0].dtype)
    low, high = np.float32(limits.min), np.float32(limits.max)
    parts = [
        (a, b, out, *(buffer[: out.size].reshape(out.shape) for buffer in call.scratch))
        for a, b, out in cut([call.inputs[0], call.inputs[3]], call.outputs[0])
    ]

    def run() -> None:
        for a, b, out, left, right in parts:
            np.copyto(left, a)
            np.copyto(right, b)
            combine(left, right)
            np.rint(left, out=left)
            np.clip(left, low, high, out=left)
            np.copyto(out, left, casting="unsafe")

    return run


@qlinear_add.kernel("NUMPY", supports=_only_operands_vary, scratch=_two_blocks)
def qlinear_add_numpy(call: Call) -> Run:
    ratio_a, ratio_b, fixed = _sum_factors(call.op, call.inputs)

    def combine(a: Array, b: Array) -> None:
        np.multiply(a, ratio_a, out=a)
        np.add(a, fixed, out=a)
        np.multiply(b, ratio_b, out=b)
        np.add(a, b, out=a)

    return _bind_blocks(call, combine)


@qlinear_mul.kernel("NUMPY", supports=_only_operands_vary, scratch=_two_blocks)
def qlinear_mul_numpy(call: Call) -> Run:
    pa, pb, pc = _binary_parameters(call.op, call.inputs)
    zero_a, zero_b, zero_c = (np.float32(p.zero_point) for p in (pa, pb, pc))
    ratio = pa.scale * pb.scale / pc.scale

    def combine(a: Array, b: Array) -> None:
        np.subtract(a, zero_a, out=a)
        np.subtract(b, zero_b, out=b)
        np.multiply(a, b, out=a)  # an integer below 2**16, exact
        np.multiply(a, ratio, out=a)
        np.add(a, zero_c, out=a)

    return _bind_blocks(call, combine)


# Functions of one element


def _unary(
    op: OperatorDef, x: TensorSpec, x_scale: Spec, x_zero_point: Spec, y_scale: Spec, y_zero_point: Spec = None
) -> List[TensorSpec]:
    require_dtype(op, "X", x, EIGHT_BITS)
    require_parameters(op, "X", x.dtype, x_scale, x_zero_point)
    require_parameters(op, "Y", x.dtype, y_scale, y_zero_point)
    return [TensorSpec(x.shape, x.dtype)]


@operator("QLinearSigmoid", inputs=(4, 5), domain=DOMAIN)
def qlinear_sigmoid(op: OperatorDef, *inputs: Any) -> List[TensorSpec]:
    """Y = quantised(1 / (1 + exp(-x))), x = x_scale * (X - x_zero)."""
    return _unary(op, *inputs)


@operator("QLinearLeakyRelu", inputs=(4, 5), domain=DOMAIN)
def qlinear_leaky_relu(op: OperatorDef, *inputs: Any) -> List[TensorSpec]:
    """Y = quantised(x where x >= 0, else alpha * x), x = x_scale * (X - x_zero); alpha 0.01."""
    return _unary(op, *inputs)


def _sigmoid(op: OperatorDef, x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x.astype(np.float64))), np.float32)


def _leaky_relu(op: OperatorDef, x: Array) -> Array:
    return np.where(x >= 0, x, np.float32(op.get_float("alpha", 0.01)) * x)


def _declare_unary(schema: Operator, function: Callable[[OperatorDef, Array], Array]) -> None:
    """Declares the reference kernel and the table kernel of a function of float32."""

    @schema.reference
    def reference(op: OperatorDef, x: Array, *rest: Any) -> List[Any]:
        x_scale, x_zero_point, y_scale, y_zero_point = (*rest, None)[:4]
        reals = function(op, dequantized(x, parameters(op, "X", x_scale, x_zero_point)))
        return [quantized(reals, parameters(op, "Y", y_scale, y_zero_point), x.dtype)]

    @schema.kernel("NUMPY", supports=_only_x_varies, scratch=_table_scratch)
    def numpy(call: Call) -> Run:
        x, y = call.inputs[0], call.outputs[0]
        table = table_of(x.dtype, lambda values: reference(call.op, values, *call.inputs[1:])[0])
        return bind_lookup(x, table, y, call.scratch)


def _only_x_varies(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    return None if all_known(inputs[1:]) else "scales and zero points must be constants"


def _table_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return lookup_scratch([outputs[0].shape])


_declare_unary(qlinear_sigmoid, _sigmoid)
_declare_unary(qlinear_leaky_relu, _leaky_relu)


# Operators that move elements and change their scale


def moved(op: OperatorDef, what: str, to: Parameters, x: Array, scale: Array, zero_point: Array) -> Array:
    """The blob, requantised; unchanged if scale and zero point are the same."""
    own = parameters(op, what, scale, zero_point)
    return x if own == to else quantized(dequantized(x, own), to, x.dtype)


@operator("QLinearWhere", inputs=9, domain=DOMAIN)
def qlinear_where(
    op: OperatorDef,
    condition: TensorSpec,
    x: TensorSpec,
    x_scale: Spec,
    x_zero_point: Spec,
    y: TensorSpec,
    y_scale: Spec,
    y_zero_point: Spec,
    z_scale: Spec,
    z_zero_point: Spec,
) -> List[TensorSpec]:
    """Z = X where the condition holds, else Y, broadcast. Both are requantised to Z's scale and zero point."""
    require_dtype(op, "the condition", condition, (np.bool_,))
    require_dtype(op, "X", x, EIGHT_BITS)
    require(op, x.dtype == y.dtype, "X and Y must have one type", x, y)
    require_parameters(op, "X", x.dtype, x_scale, x_zero_point)
    require_parameters(op, "Y", y.dtype, y_scale, y_zero_point)
    require_parameters(op, "Z", x.dtype, z_scale, z_zero_point)
    return [TensorSpec(broadcast(op, [condition, x, y]), x.dtype)]


@qlinear_where.reference
def qlinear_where_reference(op: OperatorDef, condition: Array, *inputs: Any) -> List[Any]:
    z = parameters(op, "Z", inputs[6], inputs[7])
    return [np.where(condition, moved(op, "X", z, *inputs[:3]), moved(op, "Y", z, *inputs[3:6]))]


@operator("QLinearConcat", inputs=(5, None), domain=DOMAIN)
def qlinear_concat(op: OperatorDef, y_scale: Spec, y_zero_point: TensorSpec, *inputs: Any) -> List[TensorSpec]:
    """Y = the blobs joined along ``axis``, each requantised to Y's scale and zero point.

    Inputs: Y's scale and zero point, then each blob with its scale and zero point.
    """
    require(
        op, len(inputs) % 3 == 0, f"each blob must be followed by a scale and a zero point, got {len(inputs)} inputs"
    )
    require_dtype(op, "the zero point of Y", y_zero_point, EIGHT_BITS)
    require_parameters(op, "Y", y_zero_point.dtype, y_scale, y_zero_point)
    first = inputs[0]
    axis = axis_of(op, op.get_int("axis"), first.ndim)
    for i, x in enumerate(inputs[::3]):
        require_dtype(op, f"blob {i}", x, (y_zero_point.dtype,))
        require_parameters(op, f"blob {i}", x.dtype, *inputs[3 * i + 1 : 3 * i + 3])
        require(
            op,
            (*x.shape[:axis], *x.shape[axis + 1 :]) == (*first.shape[:axis], *first.shape[axis + 1 :]),
            f"the blobs may only differ along axis {axis}",
            first,
            x,
        )
    total = sum(x.shape[axis] for x in inputs[::3])
    return [TensorSpec((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)]


@qlinear_concat.reference
def qlinear_concat_reference(op: OperatorDef, y_scale: Array, y_zero_point: Array, *inputs: Any) -> List[Any]:
    y = parameters(op, "Y", y_scale, y_zero_point)
    parts = [moved(op, f"blob {i // 3}", y, *inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    return [np.concatenate(parts, op.get_int("axis"))]


def _only_blobs_vary(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    known = all_known([spec for i, spec in enumerate(inputs) if i < 2 or i % 3 != 2])
    return None if known else "scales and zero points must be constants"


def _concat_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    return lookup_scratch([spec.shape for spec in inputs[2::3] if spec is not None])


@qlinear_concat.kernel("NUMPY", supports=_only_blobs_vary, scratch=_concat_scratch)
def qlinear_concat_numpy(call: Call) -> Run:
    op, y = call.op, call.outputs[0]
    target = parameters(op, "Y", *call.inputs[:2])
    axis, first = op.get_int("axis") % y.ndim, 0
    steps: List[Run] = []
    for x, scale, zero_point in zip(call.inputs[2::3], call.inputs[3::3], call.inputs[4::3]):
        part = y[(slice(None),) * axis + (slice(first, first + x.shape[axis]),)]
        first += x.shape[axis]
        if parameters(op, "a blob", scale, zero_point) == target:
            steps.append(partial(np.copyto, part, x))
        else:
            move = partial(moved, op, "a blob", target, scale=scale, zero_point=zero_point)
            steps.append(bind_lookup(x, table_of(x.dtype, move), part, call.scratch))
    return in_turn(steps)
