"""Caffe2's style-transfer demo: packed BGRA bytes of a camera to planes of floats, and back."""

from __future__ import annotations

from functools import partial
from typing import Any, List

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.random_numbers import generator
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec
from runtime_arm.registry.steps import copy, in_turn

COLOURS = 3  # blue, green, red
OPAQUE = 255


def _require_mean(op: OperatorDef, mean: TensorSpec) -> None:
    require(op, mean.size == COLOURS and mean.dtype == np.float32, f"the mean must be {COLOURS} float32", mean)


@operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", inputs=2, dtypes=("uint8",), pure=False)
def preprocess(op: OperatorDef, x: TensorSpec, mean: TensorSpec) -> List[TensorSpec]:
    """Y[n, c, h, w] = X[n, h, w, c] - mean[c] + noise, for bytes X (N, H, W, BGRA) and Y (N, BGR, H, W) float32.

    The noise is ``noise_size`` (491) normal numbers of deviation ``noise_std`` (10.0), repeated over the colours of one
    pixel after the other. It is the same in every run. Source: caffe2/operators/stylizer_ops.cc.
    """
    require(op, x.ndim == 4 and x.shape[3] == COLOURS + 1, "X must be (N, H, W, 4)", x)
    _require_mean(op, mean)
    if op.get_int("noise_size", 491) < 1 or not op.get_float("noise_std", 10.0) >= 0:
        raise ArgumentError(op, "noise_size must be positive and noise_std not negative")
    return [TensorSpec((x.shape[0], COLOURS, x.shape[1], x.shape[2]), np.float32)]


def _noise(op: OperatorDef, height: int, width: int) -> Array:
    """The noise that is added to an image, float32 (3, height, width)."""
    cycle = generator(op).standard_normal(op.get_int("noise_size", 491)) * op.get_float("noise_std", 10.0)
    noise: Array = np.resize(cycle.astype(np.float32), (height, width, COLOURS)).transpose(2, 0, 1)
    return noise


@preprocess.reference
def preprocess_reference(op: OperatorDef, x: Array, mean: Array) -> List[Any]:
    colours = x[..., :COLOURS].transpose(0, 3, 1, 2).astype(np.float32)
    return [colours - mean.reshape(COLOURS, 1, 1) + _noise(op, *x.shape[1:3])]


@preprocess.kernel("NUMPY")
def preprocess_numpy(call: Call) -> Run:
    (x, mean), (y,) = call.inputs, call.outputs
    height, width = x.shape[1:3]
    noise = call.packed(f"noise {height} {width}", lambda: np.ascontiguousarray(_noise(call.op, height, width)))
    return in_turn(
        [
            copy(y, x[..., :COLOURS].transpose(0, 3, 1, 2)),
            partial(np.subtract, y, mean.reshape(COLOURS, 1, 1), y),
            partial(np.add, y, noise, y),
        ]
    )


@operator("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", inputs=2, dtypes=("float32",))
def deprocess(op: OperatorDef, x: TensorSpec, mean: TensorSpec) -> List[TensorSpec]:
    """Y[n, h, w, c] = X[n, c, h, w] + mean[c], clipped to 0..255 and truncated; Y's fourth channel is 255.

    X: (N, BGR, H, W), Y: (N, H, W, BGRA) uint8. Source: caffe2/operators/stylizer_ops.cc.
    """
    require(op, x.ndim == 4 and x.shape[1] == COLOURS, "X must be (N, 3, H, W)", x)
    _require_mean(op, mean)
    return [TensorSpec((x.shape[0], x.shape[2], x.shape[3], COLOURS + 1), np.uint8)]


@deprocess.reference
def deprocess_reference(op: OperatorDef, x: Array, mean: Array) -> List[Any]:
    y = np.full((x.shape[0], *x.shape[2:], COLOURS + 1), OPAQUE, np.uint8)
    lit = x + mean.reshape(COLOURS, 1, 1)
    y[..., :COLOURS] = np.fmin(np.fmax(lit, 0), OPAQUE).astype(np.uint8).transpose(0, 2, 3, 1)
    return [y]


@deprocess.kernel(
    "NUMPY",
    scratch=lambda op, inputs, outputs: [TensorSpec(spec.shape, np.float32) for spec in inputs[:1] if spec is not None],
)
def deprocess_numpy(call: Call) -> Run:
    (x, mean), (y,), (lit,) = call.inputs, call.outputs, call.scratch
    return in_turn(
        [
            partial(np.add, x, mean.reshape(COLOURS, 1, 1), lit),
            partial(np.fmax, lit, np.float32(0), out=lit),
            partial(np.fmin, lit, np.float32(OPAQUE), out=lit),
            partial(np.copyto, y[..., :COLOURS], lit.transpose(0, 2, 3, 1), casting="unsafe"),
            partial(y[..., COLOURS].fill, OPAQUE),
        ]
    )
