"""The gradient of ONNX's Attention, armnet's own operator."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.attention.core import attend64, join_heads
from runtime_arm.operators.attention.onnx import attention, biases64, heads_apart, scale_of, sizes_of_heads
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """The scores, dV, dP, dQ and dK: five products."""
    q, k, v = inputs[1:4]
    assert q is not None
    assert k is not None
    assert v is not None
    size = sizes_of_heads(op, q, k, v, None)
    return size.batches * size.heads * size.queries * size.keys * (3 * size.depth + 2 * size.width)


@operator("AttentionGradient", domain="armnet", inputs=(4, 5), outputs=3, dtypes=FLOATS, multiply_adds=_products)
def attention_gradient(
    op: OperatorDef, dy: TensorSpec, q: TensorSpec, k: TensorSpec, v: TensorSpec, mask: Optional[TensorSpec] = None
) -> List[TensorSpec]:
    """dQ, dK and dV of ONNX's Attention without a past. With the probabilities P of the scores: dV = P^T dY,
    dS = P (dY V^T - the sum of P dY V^T per row), times the slope of softcap; dQ = scale dS K, dK = scale dS^T Q.

    Heads that share keys and values add up. The probabilities are recomputed; the mask has no gradient.
    """
    form = forward_form(op).replace(output=("Y",))
    (y, *_) = attention.shape(form, q, k, v, *([] if mask is None else [mask]))
    require(op, dy.shape == y.shape and dy.dtype == q.dtype, f"dY must have the shape {list(y.shape)}", dy, q)
    return [q, k, v]


@attention_gradient.reference
def attention_gradient_reference(
    op: OperatorDef, dy: Array, q: Array, k: Array, v: Array, mask: Optional[Array] = None
) -> List[Any]:
    flat, dtypes = q.ndim == 3, [x.dtype for x in (q, k, v)]
    queries, own_keys, own_values = (x.astype(np.float64) for x in heads_apart(op, q, k, v))
    (errors,) = heads_apart(op, dy.astype(np.float64))[:1]
    scale, softcap = scale_of(op, queries.shape[3]), op.get_float("softcap", 0.0)
    _, stages = attend64(queries, own_keys, own_values, scale, biases64(op, queries, own_keys, mask), softcap)
    groups = queries.shape[1] // own_keys.shape[1]
    keys, values = (np.repeat(x, groups, axis=1) for x in (own_keys, own_values))
    p = stages.probabilities
    dp = np.matmul(errors, values.swapaxes(2, 3))
    ds = p * (dp - (p * dp).sum(axis=3, keepdims=True))
    if softcap > 0:
        ds = ds * (1 - (stages.capped / softcap) ** 2)
    dq = scale * np.matmul(ds, keys)
    dk, dv = scale * np.matmul(ds.swapaxes(2, 3), queries), np.matmul(p.swapaxes(2, 3), errors)
    shared = [x.reshape(x.shape[0], -1, groups, *x.shape[2:]).sum(axis=2) for x in (dk, dv)]
    results = [join_heads(x) if flat else x for x in (dq, *shared)]
    return [result.astype(dtype) for result, dtype in zip(results, dtypes)]
