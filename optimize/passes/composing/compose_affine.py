"""Consecutive scales and shifts by channel become one batch normalisation if they cannot be folded into a layer.

    s2 (s1 x + t1) + t2 = (s1 s2) x + (s2 t1 + t2)

Its mean is 0 and its variance 1. The operators after it can be fused with a batch normalisation.
"""

from __future__ import annotations

import numpy as np

from optimize.layers.affine import Channels, affine_of, scaled
from optimize.rewriting.patterns import rule
from optimize.rewriting.program import Program, Rewrite
from optimize.rewriting.rewrite import Pass, Refusal
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.common.windows import channels_last

_SUFFIX = "_composed"


def _compose(program: Program, x: str, first: OperatorDef, second: OperatorDef) -> Rewrite:
    channels = _channels(program, x, first, second)
    inner = affine_of(program, first, x, channels)
    outer = affine_of(program, second, first.output[0], channels)
    with np.errstate(over="ignore"):
        scale = (inner.scale * outer.scale).astype(np.float32)
        shift = (inner.shift * outer.scale + outer.shift).astype(np.float32)
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        raise Refusal("a product is not finite")
    stem = second.output[0].split(_SUFFIX)[0] + _SUFFIX
    values = {"scale": scale, "shift": shift, "mean": np.zeros_like(scale), "variance": np.ones_like(scale)}
    weights = {program.fresh(f"{stem}_{what}"): value for what, value in values.items()}
    order = {} if channels.axis == 1 else {"order": "NHWC"}
    return Rewrite(
        (OperatorDef.of("SpatialBN", [x, *weights], second.output, name=second.name, is_test=1, epsilon=0.0, **order),),
        weights=weights,
    )


def _channels(program: Program, x: str, *ops: OperatorDef) -> Channels:
    """The channels of the blob: where a normalisation says they are, else in the dimension 1."""
    dims = program.dims(x)
    last = any(channels_last(op) for op in ops)
    if dims is None or len(dims) < 2 or dims[-1 if last else 1] is None:
        raise Refusal(f"the channels of {x!r} are not known")
    if any(spec is None or spec.dtype != np.float32 for spec in program.specs(x)):
        raise Refusal(f"{x!r} is not float32")
    axis = len(dims) - 1 if last else 1
    number = dims[axis]
    assert number is not None
    return Channels(number, axis, len(dims))


PASS = Pass("compose_affine", (rule(*scaled(scaled("x", "first"), "second"), to=_compose),))
