"""Building blocks of elementwise operators: kernels made of a ufunc or a formula of several, and their references.

A formula writes with ``out=`` into blocks that stay in the cache, so its temporaries cost neither memory nor bandwidth.
Its input and output may be the same memory, so it must not write ``y`` before it has read ``x`` for the last time.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Callable, List, Mapping, Optional, Sequence

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dtypes import FLOAT32, FLOAT32_64, FLOATS, Dtypes
from runtime_arm.registry.blocks import BLOCK
from runtime_arm.registry.facts import Default, FastFormula, Formula, Kind, arguments_of
from runtime_arm.registry.kernel import Call, Run, Specs, Supports
from runtime_arm.registry.schema import Operator, operator
from runtime_arm.registry.specs import TensorSpec

CLIPS_FAST = np.lib.NumpyVersion(np.__version__) >= "2.0.0"  # before, two comparisons are faster than np.clip

Exact = Callable[..., Any]  # (x, **arguments) -> y
Scratch = Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]]
Check = Callable[[OperatorDef, Mapping[str, Any]], None]


def ufunc_kernel(ufunc: Any) -> Callable[[Call], Run]:
    """A kernel that splits its work: the ufunc applied to all inputs, broadcast."""
    return lambda call: apply(call, ufunc, *call.inputs)


def apply(call: Call, ufunc: Any, *operands: Array) -> Run:
    """A run that computes this worker's part of ufunc(*operands), broadcast to output 0."""
    y = call.outputs[0]
    if call.workers == 1:
        return partial(ufunc, *operands, out=y)
    y = np.atleast_1d(y)
    mine = call.part(y.shape)
    return partial(ufunc, *(np.broadcast_to(x, y.shape)[mine] for x in operands), out=y[mine])


def in_blocks(call: Call, formula: Formula) -> Run:
    """A run of ``formula(x, y, *scratch)`` over this worker's blocks of input 0 and output 0.

    Scratch buffers have the length of a block.
    """
    x, y = call.inputs[0].reshape(-1), call.outputs[0].reshape(-1)
    parts = [slice(start, min(start + BLOCK, x.size)) for start in range(0, x.size, BLOCK)]
    runs = [
        partial(formula, x[part], y[part], *(t[: part.stop - part.start] for t in call.scratch))
        for part in call.mine(parts)
    ]
    if len(runs) == 1:
        return runs[0]

    def run() -> None:
        for block in runs:
            block()

    return run


def block_scratch(count: int) -> Scratch:
    """A kernel's ``scratch``: ``count`` buffers of the length of a block, in the output's dtype."""
    return lambda op, inputs, outputs: [TensorSpec((min(BLOCK, outputs[0].size),), outputs[0].dtype)] * count


@lru_cache(maxsize=32)
def _filled_block(value: float, dtype: Any) -> Array:
    block = np.full(BLOCK, value, dtype)
    block.flags.writeable = False
    return block


def level(value: float, like: Array) -> Array:
    """A block filled with ``value``.

    Every NumPy compares two arrays with SIMD, but only some versions an array with a number.
    """
    filled = _filled_block(value, like.dtype)[: like.size]
    return filled if like.ndim == 1 else filled.reshape(like.shape)


def only_for(dtypes: Dtypes) -> Supports:
    """A kernel's ``supports``: refuses dtypes outside ``dtypes``.

    A formula of several roundings needs bits to spare, and polynomial coefficients are made for one precision.
    """

    def supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
        name = outputs[0].dtype.name
        return None if name in dtypes else f"no formula for {name}"

    return supports


def exactly(function: Exact, *operands: Any, **arguments: Any) -> Array:
    """The function, with floats widened to float64. The result has the dtype of the first operand."""
    wide = [x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in operands]
    result: Array = np.asarray(function(*wide, **arguments)).astype(operands[0].dtype)
    return result


def must_exceed(name: str, limit: float) -> Check:
    """A check that refuses an argument unless it is greater than ``limit``."""

    def check(op: OperatorDef, arguments: Mapping[str, Any]) -> None:
        if not arguments[name] > limit:
            raise ArgumentError(op, f"{name} must be greater than {limit:g}, got {arguments[name]:g}")

    return check


def must_be_one_of(name: str, *choices: str) -> Check:
    """A check that refuses an argument that is none of ``choices``."""

    def check(op: OperatorDef, arguments: Mapping[str, Any]) -> None:
        if arguments[name] not in choices:
            raise ArgumentError(op, f"{name} must be {' or '.join(map(repr, choices))}, got {arguments[name]!r}")

    return check


def unary(
    type: str,
    exact: Exact,
    *,
    caffe2: Dtypes = FLOAT32,
    onnx: Dtypes = FLOATS,
    fast: Dtypes = FLOAT32_64,
    inplace: bool = True,
    scratch: int = 0,
    check: Optional[Check] = None,
    **defaults: Default,
) -> Callable[[Formula], Formula]:
    """Decorator over a formula ``(x, y, *scratch, **arguments)``: declares an elementwise operator of one input.

    The formula becomes the fast kernel for the dtypes ``fast``; its docstring becomes the operator's. scratch: the
    number of temporaries it takes. All other parameters are those of ``declare_unary``.
    """

    def register(formula: Formula) -> Formula:
        def bind(call: Call) -> Run:
            return in_blocks(call, partial(formula, **arguments_of(call.op, defaults)))

        doc = formula.__doc__ or ""
        fast_formula = FastFormula(formula, scratch, fast, defaults)
        for schema in declare_unary(
            type, exact, doc, caffe2, onnx, inplace=inplace, check=check, formula=fast_formula, **defaults
        ):
            schema.kernel("NUMPY", supports=only_for(fast), scratch=block_scratch(scratch), splits_work=True)(bind)
        return formula

    return register


def declare_unary(
    type: str,
    exact: Exact,
    doc: str,
    caffe2: Dtypes,
    onnx: Dtypes,
    *,
    inplace: bool = True,
    check: Optional[Check] = None,
    formula: Optional[FastFormula] = None,
    **defaults: Default,
) -> List[Operator]:
    """Declares an elementwise operator of one input with a reference kernel only. Returns the schemas, one per domain.

    exact: ``(x, **arguments) -> y`` in float64. caffe2, onnx: the dtypes that the operator takes in that domain; empty
    if the domain lacks it. inplace: whether Caffe2 allows the output to have the input's name. check: refuses
    arguments. formula: that of the fast kernel, if there is one. defaults: the arguments and their defaults.
    """

    def shape(op: OperatorDef, x: TensorSpec) -> List[TensorSpec]:
        arguments = arguments_of(op, defaults)
        if check is not None:
            check(op, arguments)
        return [x]

    def reference(op: OperatorDef, x: Array) -> List[Any]:
        return [exactly(exact, x, **arguments_of(op, defaults))]

    shape.__doc__ = doc
    schemas = []
    for domain, dtypes, shared in (("", caffe2, inplace), ("onnx", onnx, True)):
        if dtypes:
            overwritten = {0: 0} if shared else {}
            declare = operator(
                type, domain=domain, dtypes=dtypes, inplace=overwritten, kind=Kind.ELEMENTWISE, formula=formula
            )
            schemas.append(declare(shape))
            schemas[-1].reference(reference)
    return schemas
