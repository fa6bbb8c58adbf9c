"""TensorFlow Lite's local response normalisation."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec


@operator("LocalResponseNormalization", domain="tflite", dtypes=("float32",))
def local_response_normalization(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
    """Y[..., c] = X[..., c] (bias + alpha sum of X[..., i]^2)^-beta over i from c - radius to c + radius - 1.

    Channels come last. Source: TensorFlow Lite, reference_ops.h, LocalResponseNormalization.
    """
    require(op, x.ndim >= 1 and op.get_int("radius") >= 0, "X must have a dimension, radius must not be negative", x)
    return [x]


@local_response_normalization.reference
def local_response_normalization_reference(op: OperatorDef, x: Array) -> List[Any]:
    radius, depth = op.get_int("radius"), x.shape[-1]
    alpha, beta, bias = (op.get_float(name) for name in ("alpha", "beta", "bias"))
    running = np.zeros((*x.shape[:-1], depth + 1))
    np.cumsum(np.square(x.astype(np.float64)), axis=-1, out=running[..., 1:])
    channels = np.arange(depth)
    sums = running[..., np.minimum(channels + radius, depth)] - running[..., np.maximum(channels - radius, 0)]
    return [(x * np.power(bias + alpha * sums, -beta)).astype(x.dtype)]
