"""ONNX's Clip, whose bounds are inputs. Caffe2's is in activation.py."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import NUMBERS, require_same_dtype
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("Clip", domain="onnx", inputs=(1, 3), dtypes=NUMBERS, inplace={0: 0}, kind=Kind.ELEMENTWISE)
def clip(
    op: OperatorDef, x: TensorSpec, low: Optional[TensorSpec] = None, high: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """Y = min(max(X, min), max). Each bound is one number, by default the limit of the dtype."""
    require_same_dtype(op, x, low, high)
    single = all(spec is None or spec.size == 1 for spec in (low, high))
    require(op, single, "min and max must be one number each", low, high)
    return [x]


@clip.reference
def clip_reference(op: OperatorDef, x: Array, low: Optional[Array] = None, high: Optional[Array] = None) -> List[Any]:
    y = x if low is None else np.maximum(x, low.reshape(()))
    return [y.copy() if high is None else np.minimum(y, high.reshape(()))]


@clip.kernel("NUMPY", splits_work=True)
def clip_numpy(call: Call) -> Run:
    _, low, high = (*call.inputs, None, None)[:3]
    x, y = np.atleast_1d(call.inputs[0], call.outputs[0])
    mine = call.part(y.shape)
    x, y = x[mine], y[mine]

    def run() -> None:
        held = x
        if low is not None:
            held = np.maximum(held, low.reshape(()), out=y)
        if high is not None:
            held = np.minimum(held, high.reshape(()), out=y)
        if held is x:
            np.copyto(y, x)

    return run
