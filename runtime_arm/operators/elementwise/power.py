"""Pow: powers of a blob by a number or by another blob, in Caffe2 and ONNX."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.broadcasting import broadcast, second_shape
from runtime_arm.operators.common.casting import to_integers
from runtime_arm.operators.common.dtypes import FLOAT32, FLOATS
from runtime_arm.operators.common.formulas import block_scratch, exactly, in_blocks
from runtime_arm.operators.elementwise.binary import common_shape, operands
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("Pow", inputs=(1, 2), dtypes=FLOAT32, inplace={0: (0, 1)}, kind=Kind.ELEMENTWISE)
def power(op: OperatorDef, a: TensorSpec, b: Optional[TensorSpec] = None) -> List[TensorSpec]:
    """Y = A ** exponent or A ** B. B has A's shape, or with broadcast=1 the one in common/broadcasting.py."""
    if b is None:
        op.get_float("exponent")
        return [a]
    if op.has("exponent"):
        raise ArgumentError(op, "give either exponent or a second input, not both")
    if not op.get_bool("broadcast"):
        require(op, a.shape == b.shape, "without broadcast=1 the inputs must have the same shape", a, b)
        require(op, not op.has("axis") and not op.has("axis_str"), "axis needs broadcast=1")
    return [TensorSpec(common_shape(op, a, b), a.dtype)]


@power.reference
def power_reference(op: OperatorDef, a: Array, b: Optional[Array] = None) -> List[Any]:
    if b is None:
        return [exactly(np.power, a, np.float64(op.get_float("exponent")))]
    return [exactly(np.power, a, b.reshape(second_shape(op, TensorSpec.known(a), TensorSpec.known(b))))]


@operator("Pow", domain="onnx", inputs=2, dtypes=(*FLOATS, "int32", "int64"), inplace={0: 0}, kind=Kind.ELEMENTWISE)
def onnx_power(op: OperatorDef, a: TensorSpec, b: TensorSpec) -> List[TensorSpec]:
    """Y = A ** B, in A's dtype, for any dtype of B."""
    return [TensorSpec(broadcast(op, (a, b)), a.dtype)]


@onnx_power.reference
def onnx_power_reference(op: OperatorDef, a: Array, b: Array) -> List[Any]:
    if a.dtype.kind == "f":
        return [exactly(np.power, a, b)]
    if b.dtype.kind in "iu" and bool(np.all(b >= 0)):
        return [np.power(a, b.astype(np.int64)).astype(a.dtype)]
    return [to_integers(np.power(a.astype(np.float64), b.astype(np.float64)), a.dtype)]


def _constant_exponent(op: OperatorDef, inputs: Specs) -> Optional[float]:
    if len(inputs) == 1:
        return op.get_float("exponent")
    value = inputs[1].value if inputs[1] is not None else None
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _cube(x: Array, y: Array, t: Array) -> None:
    np.square(x, out=t)
    np.multiply(x, t, out=y)


# np.power is up to a hundred times slower, depending on NumPy's version.
SHORTCUTS: Dict[float, Callable[[Array, Array, Array], Any]] = {
    -1.0: lambda x, y, t: np.reciprocal(x, out=y),
    1.0: lambda x, y, t: np.copyto(y, x),
    2.0: lambda x, y, t: np.square(x, out=y),
    3.0: _cube,
}


def _by_number(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if outputs[0].dtype.kind != "f":
        return "integers are computed by the reference kernel"
    return None if _constant_exponent(op, inputs) in SHORTCUTS else "the exponent is not a constant -1, 1, 2 or 3"


def _by_ufunc(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    dtypes = {spec.dtype for spec in inputs if spec is not None}
    return None if len(dtypes) == 1 and outputs[0].dtype.kind == "f" else "inputs are not floats of one dtype"


@onnx_power.kernel("PRODUCTS", supports=_by_number, scratch=block_scratch(1))
@power.kernel("PRODUCTS", supports=_by_number, scratch=block_scratch(1))
def power_by_products(call: Call) -> Run:
    exponent = _constant_exponent(call.op, call.in_specs)
    assert exponent is not None
    return in_blocks(call, SHORTCUTS[exponent])


@onnx_power.kernel("NUMPY", supports=_by_ufunc)
@power.kernel("NUMPY", supports=_by_ufunc)
def power_numpy(call: Call) -> Run:
    if len(call.inputs) == 1:
        return partial(np.power, call.inputs[0], call.op.get_float("exponent"), out=call.outputs[0])
    return partial(np.power, *operands(call), out=call.outputs[0])
