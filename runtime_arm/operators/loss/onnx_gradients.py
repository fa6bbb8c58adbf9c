"""The gradients of ONNX's losses, armnet's own operators."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.common.statistics import require_floats
from runtime_arm.operators.loss.caffe2 import negative_log_likelihood, shares_of, softmax_cross_entropy
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import TensorSpec


def _declare(forward: Operator, doc: str) -> None:
    def shape(
        op: OperatorDef, dloss: TensorSpec, x: TensorSpec, labels: TensorSpec, weights: Optional[TensorSpec] = None
    ) -> List[TensorSpec]:
        require_floats(op, dloss, x)
        loss = forward.shape(forward_form(op), x, labels, *([] if weights is None else [weights]))[0]
        require(op, dloss.size == loss.size, f"dloss must have {loss.size} elements", dloss, x, labels)
        return [x]

    shape.__doc__ = doc
    schema = operator(f"{forward.type}Gradient", domain="armnet", inputs=(3, 4), dtypes=FLOATS)(shape)

    @schema.reference
    def reference(op: OperatorDef, dloss: Array, x: Array, labels: Array, weights: Optional[Array] = None) -> List[Any]:
        share, chosen = _errors(op, dloss, x, labels, weights)
        targets = np.arange(x.shape[1]).reshape(1, -1, *[1] * (x.ndim - 2)) == chosen[:, None]
        if forward is softmax_cross_entropy:
            powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
            dx = (powers / powers.sum(axis=1, keepdims=True) - targets) * share[:, None]
        else:
            dx = -(targets * share[:, None])
        return [dx.astype(x.dtype)]


def _errors(op: OperatorDef, dloss: Array, x: Array, labels: Array, weights: Optional[Array]) -> Tuple[Array, Array]:
    """What each row's loss is multiplied with, and the label that counts."""
    share, chosen = shares_of(op, x, labels, weights)
    reduction = op.get_str("reduction", "mean")
    error = dloss.astype(np.float64).reshape(labels.shape if reduction == "none" else (1,) * labels.ndim)
    divisor = share.sum() if reduction == "mean" else 1.0
    return share * error / (divisor or 1.0), chosen


_declare(negative_log_likelihood, "dX[n, label, ...] = -dloss weight[label] / divisor, else 0, as the loss is reduced.")
_declare(softmax_cross_entropy, "dX = (softmax(X) - target) dloss weight[label] / divisor, as the loss is reduced.")
