"""The kernel of casts between numbers, by the rule of ``casting.py``."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.casting import STRING, saturating
from runtime_arm.operators.common.formulas import in_blocks
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.specs import TensorSpec


def cast_kernel(call: Call) -> Run:
    """The kernel of every cast between numbers and booleans: input 0 in output 0's dtype. Needs ``cast_scratch``."""
    x, y = call.inputs[0], call.outputs[0]
    if x.dtype.kind == "f" and y.dtype.kind in "iu":
        return in_blocks(call, _into_integers)
    return partial(np.copyto, y, x, casting="unsafe")


def cast_scratch(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> List[TensorSpec]:
    """For the conversion of floats to integers a block of floats, of the integers that saturate, and of flags."""
    x, y = inputs[0], outputs[0]
    if x is None or x.dtype.kind != "f" or y.dtype.kind not in "iu":
        return []
    length = (min(BLOCK, y.size),)
    return [TensorSpec(length, np.float64), TensorSpec(length, saturating(y.dtype)), TensorSpec(length, np.bool_)]


def _into_integers(x: Array, y: Array, values: Array, whole: Array, beyond: Array) -> None:
    """y = ``to_integers(x, y.dtype)``"""
    if whole.dtype == np.uint64 or not (x.size and float(x.min()) > -(2.0**31) and float(x.max()) < 2.0**31):
        saturate(x, values, whole, beyond, np.iinfo(whole.dtype).min)
    else:
        np.copyto(whole, x, casting="unsafe")
    np.copyto(y, whole, casting="unsafe")


def saturate(x: Array, values: Array, whole: Array, beyond: Array, nan: int) -> None:
    """whole = the floats x, rounded towards zero.

    What does not fit becomes the largest or smallest integer, NaN becomes ``nan``, one of these two. values, beyond:
    memory for as many float64 and flags.
    """
    limits = np.iinfo(whole.dtype)
    np.copyto(values, x)
    if nan == limits.max:
        np.copyto(values, np.inf, where=np.isnan(values, out=beyond))
    np.fmax(values, float(limits.min), out=values)  # fmax passes NaN over
    first = float(limits.max)  # 2**63 for int64, which is the first float that does not fit
    np.greater_equal(values, first, out=beyond)
    np.copyto(values, 0.0, where=beyond)
    np.copyto(whole, values, casting="unsafe")
    np.copyto(whole, limits.max, where=beyond)


def no_strings(op: OperatorDef, inputs: Specs, outputs: Any) -> Optional[str]:
    """Why there is no kernel where input 0 or output 0 holds strings: they have no fixed size."""
    return "strings have no buffers" if STRING in (inputs[0].dtype, outputs[0].dtype) else None  # type: ignore[union-attr]
