"""Building blocks of the gradients of elementwise operators: kernels made of a formula, and their references."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Optional

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32_64, FLOATS, Dtypes
from runtime_arm.operators.common.formulas import Check, Exact, block_scratch, only_for
from runtime_arm.registry.blocks import cut
from runtime_arm.registry.facts import Default, Formula, Kind, arguments_of
from runtime_arm.registry.kernel import Call, Run
from runtime_arm.registry.schema import Operator, operator, require
from runtime_arm.registry.specs import TensorSpec


def slope(
    type: str,
    inputs: str,
    exact: Exact,
    *,
    domain: str = "",
    dtypes: Dtypes = FLOATS,
    fast: Dtypes = FLOAT32_64,
    scratch: int = 0,
    check: Optional[Check] = None,
    **defaults: Default,
) -> Callable[[Formula], Operator]:
    """Decorator over a formula ``(*inputs, dx, *scratch, **arguments)``: declares the gradient of such an operator.

    inputs: their names in order, "y dy"; all have one shape and dtype, which dX has as well. ``dx`` may be the memory
    of ``dy`` and of no other. exact: ``(*inputs, **arguments) -> dx`` in float64. All other parameters are those of
    ``common.formulas.unary``.
    """
    names = inputs.split()

    def register(formula: Formula) -> Operator:
        def shape(op: OperatorDef, *specs: TensorSpec) -> List[TensorSpec]:
            arguments = arguments_of(op, defaults)
            if check is not None:
                check(op, arguments)
            return [same_floats(op, *specs)]

        def reference(op: OperatorDef, *arrays: Array) -> List[Any]:
            wide = [x.astype(np.float64) for x in arrays]
            return [np.asarray(exact(*wide, **arguments_of(op, defaults))).astype(arrays[0].dtype)]

        def bind(call: Call) -> Run:
            return by_blocks(call, partial(formula, **arguments_of(call.op, defaults)))

        shape.__doc__ = formula.__doc__
        schema = operator(
            type,
            domain=domain,
            inputs=len(names),
            dtypes=dtypes,
            inplace={0: names.index("dy")},
            kind=Kind.ELEMENTWISE,
        )(shape)
        schema.reference(reference)
        schema.kernel("NUMPY", supports=only_for(fast), scratch=block_scratch(scratch), splits_work=True)(bind)
        return schema

    return register


def same_floats(op: OperatorDef, *specs: TensorSpec) -> TensorSpec:
    """The spec that all inputs have; ShapeError if they differ."""
    require(op, all(spec == specs[0] for spec in specs), "the inputs must have one shape and one dtype", *specs)
    return specs[0]


def by_blocks(call: Call, formula: Formula) -> Run:
    """A run of ``formula(*inputs, dx, *scratch)`` over this worker's blocks; all have the shape of the output."""
    runs = []
    for views in call.mine(cut(call.inputs, call.outputs[0])):
        flat = [view.reshape(-1) for view in views]
        runs.append(partial(formula, *flat, *(t[: flat[-1].size] for t in call.scratch)))

    def run() -> None:
        for block in runs:
            block()

    return run


def keep(dy: Array, where: Array, dx: Array, t: Array) -> None:
    """dx = dy where the truth values are true, else 0. ``t``: scratch like ``dx``; ``where`` must not lie in it.

    It multiplies the bits of dy, as integers, with 0 or 1: ``np.copyto`` with ``where`` takes ten times as long.
    """
    integers = np.dtype(f"i{dx.itemsize}")
    np.copyto(t.view(integers), where.view(np.int8))
    np.multiply(dy.view(integers), t.view(integers), out=dx.view(integers))


def truths(t: Array) -> Array:
    """A block of truth values in the memory of the scratch ``t``."""
    return t.view(np.bool_)[: t.size]
