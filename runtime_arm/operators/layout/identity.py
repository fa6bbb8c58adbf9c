"""Operators that pass their input on: copies, checks, and Dropout (which drops elements only in training)."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError, OperatorError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, FLOAT32_64, FLOATS
from runtime_arm.operators.common.formulas import exactly
from runtime_arm.operators.common.random_numbers import generator
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("Copy", view=True)
def copy(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X."""
    return [x]


copy.alias("AliasWithName", "CopyCPUToCPU", "CopyFromCPUInput")


@operator("NegateGradient", inplace={0: 0}, view=True)
def negate_gradient(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X; its gradient is -dY."""
    return [x]


@operator("CopyOnDeviceLike", inputs=2, view=True)
def copy_on_device_like(op: OperatorDef, x: TensorSpec, like: TensorSpec) -> List[TensorSpec]:
    """Y = X, on the device of the second input. There is only one device."""
    return [x]


@operator("Print", inputs=(1, 2), outputs=0)
def print_(op: OperatorDef, x: TensorSpec, *others: Optional[TensorSpec]) -> List[TensorSpec]:
    """Does nothing: Caffe2 prints for developers of a net, this runtime stays silent."""
    return []


@print_.reference
def print_reference(op: OperatorDef, *inputs: Any) -> List[Any]:
    return []


@operator("ZeroGradient", outputs=0)
def zero_gradient(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Does nothing: it reads a blob that nothing else reads, so that its gradient is zero and not missing."""
    return []


@zero_gradient.reference
def zero_gradient_reference(op: OperatorDef, x: Any) -> List[Any]:
    return []


@operator("EnforceFinite", outputs=0, dtypes=FLOAT32_64)
def enforce_finite(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Raises an error where X is NaN or infinite."""
    return []


@enforce_finite.reference
def enforce_finite_reference(op: OperatorDef, x: Array) -> List[Any]:
    _require_finite(op, x)
    return []


@operator("Assert", outputs=0, dtypes=("bool", "int32", "int64"))
def assert_(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Raises an error, with ``error_msg``, unless every element of X is true."""
    return []


@assert_.reference
def assert_reference(op: OperatorDef, x: Array) -> List[Any]:
    if not x.all():
        raise OperatorError(op, op.get_str("error_msg", "") or f"{op.input[0]!r} is not true everywhere")
    return []


@operator("NanCheck", inputs=(1, None), dtypes=FLOAT32, inplace={0: 0})
def nan_check(op: OperatorDef, x: TensorSpec, *others: Optional[TensorSpec]) -> List[TensorSpec]:
    """Y = X. Raises an error where X is NaN or infinite."""
    return [x]


@nan_check.reference
def nan_check_reference(op: OperatorDef, x: Array, *others: Any) -> List[Any]:
    _require_finite(op, x)
    return [x.copy()]


def _require_finite(op: OperatorDef, x: Array) -> None:
    bad = x[~np.isfinite(x)]
    if bad.size:
        raise OperatorError(op, f"{bad.size} of {x.size} elements of {op.input[0]!r} are not finite; first: {bad[0]}")


@operator("Dropout", outputs=(1, 2), dtypes=FLOAT32, inplace={0: 0}, pure=False)
def dropout(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y = X with is_test; else an element is 0 with probability ``ratio``, or X / (1 - ratio). Mask: what stays."""
    ratio = op.get_float("ratio", 0.5)
    if not 0 <= ratio < 1:
        raise ArgumentError(op, f"ratio must be at least 0 and less than 1, got {ratio:g}")
    masked = len(op.output) == 2
    require(op, masked or op.get_bool("is_test"), "without is_test there must be a second output, the mask")
    return [x, x.with_dtype(np.bool_)]


@dropout.reference
def dropout_reference(op: OperatorDef, x: Array) -> List[Any]:
    return _dropped(op, x, 0.0 if op.get_bool("is_test") else op.get_float("ratio", 0.5))


@operator("Dropout", domain="onnx", inputs=(1, 3), outputs=(1, 2), dtypes=FLOATS, inplace={0: 0}, pure=False)
def onnx_dropout(
    op: OperatorDef, x: TensorSpec, ratio: Optional[TensorSpec] = None, training_mode: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = X. With training_mode an element is 0 with probability ``ratio``, or X / (1 - ratio). Mask: what stays."""
    single = all(spec is None or spec.size == 1 for spec in (ratio, training_mode))
    require(op, single, "ratio and training_mode must be one number each", ratio, training_mode)
    return [x, x.with_dtype(np.bool_)]


@onnx_dropout.reference
def onnx_dropout_reference(
    op: OperatorDef, x: Array, ratio: Optional[Array] = None, training_mode: Optional[Array] = None
) -> List[Any]:
    if training_mode is None or not training_mode.any():
        return _dropped(op, x, 0.0)
    share = 0.5 if ratio is None else float(ratio.reshape(-1)[0])
    if not 0 <= share < 1:
        raise OperatorError(op, f"ratio must be at least 0 and less than 1, got {share:g}")
    return _dropped(op, x, share)


def _dropped(op: OperatorDef, x: Array, ratio: float) -> List[Any]:
    mask = generator(op).uniform(0.0, 1.0, x.shape) >= ratio
    return [exactly(lambda x: np.where(mask, x / (1 - ratio), 0), x), np.asarray(mask)]


def _nothing_dropped(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    if op.domain == "onnx":
        mode = inputs[2] if len(inputs) > 2 else None
        idle = mode is None or (mode.value is not None and not mode.value.any())
    else:
        idle = op.get_bool("is_test")
    return None if idle else "training drops elements"


@onnx_dropout.kernel("NUMPY", supports=_nothing_dropped)
@dropout.kernel("NUMPY", supports=_nothing_dropped)
def dropout_numpy(call: Call) -> Run:
    x, (y, *masks) = call.inputs[0], call.outputs

    def run() -> None:
        np.copyto(y, x)
        for mask in masks:
            mask.fill(True)

    return run
