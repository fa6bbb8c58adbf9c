"""The operators: schema, shape function, reference kernel, and fast kernels by engine key.

An operator is declared once, in ``operators/``:

    @operator("Relu", inputs=1, inplace={0: 0})
    def relu(op, x):
        \"\"\"Y = max(X, 0), elementwise.\"\"\"            # formula, layouts, source
        return [x]                                      # the shape function: specs of the outputs

    @relu.reference
    def relu_reference(op, x):                          # slow and obvious; fresh arrays
        return [np.maximum(x, 0)]

    @relu.kernel("NUMPY")
    def relu_numpy(call):                               # binds buffers once, returns what runs
        x, y = call.inputs[0], call.outputs[0]
        return lambda: np.maximum(x, 0, out=y)

``op`` is the OperatorDef; ``op.get_int("axis", 1)`` and the like read its arguments. A shape function takes one
TensorSpec for each input, None for one that is left out, and may refuse them (ShapeError, ArgumentError). If the shape
of an output depends on the content of an input, the function asks ``value_of(op, spec, "shape")``. If that content is
unknown, the net is planned up to this operator, and planned further once the content exists. A spec that is returned
with a ``value`` is a constant: nothing runs for it.
"""

from __future__ import annotations

import math
import sys
from copy import copy
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from runtime_arm.errors import ArgumentError, ShapeError, UnknownOperator
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.records import NamedTuple, field, record
from runtime_arm.registry.facts import FastFormula, Fusion, Kind
from runtime_arm.registry.families import FAMILIES, load_domain, load_operator
from runtime_arm.registry.kernel import (
    Call,
    Kernel,
    Run,
    Specs,
    Supports,
    WorkFunction,
    always,
    choose,
    no_scratch,
)
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

ShapeFunction = Callable[..., Sequence[TensorSpec]]
Reference = Callable[..., Sequence[Any]]
Counts = Union[int, Tuple[int, Optional[int]]]
Inplace = Mapping[int, Union[int, Tuple[int, ...]]]
Parts = Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[Tuple[slice, ...]]]
MultiplyAdds = Callable[[OperatorDef, Specs, Sequence[TensorSpec]], int]


class DataDependent(Exception):
    """Raised while planning: the shape of an output depends on the content of a blob that is not known yet."""


class Branch(NamedTuple):
    """A sub-net that can run in place of its operator, and, for each output of the operator, the sub-net's blob."""

    net: NetDef
    outputs: Mapping[str, str]


BranchFunction = Callable[[OperatorDef, Specs], Optional[Branch]]


@record(eq=False, repr=False)
class Operator:
    """The schema of one operator type. ``@operator`` makes it, and its docstring says what the fields mean."""

    type: str
    domain: str
    inputs: Tuple[int, Optional[int]]
    outputs: Tuple[int, Optional[int]]
    inplace: Mapping[int, Tuple[int, ...]]
    dtypes: Tuple[str, ...]
    view: bool
    pure: bool
    control: bool
    shape: ShapeFunction
    joins: Optional[Parts]
    splits: Optional[Parts]
    kind: Optional[Kind]
    formula: Optional[FastFormula]
    fused: Optional[str]
    fusion: Optional[Fusion]
    multiply_adds: Optional[MultiplyAdds]
    unpacks: bool
    kernels: Dict[str, Kernel] = field(default_factory=dict)
    branch: Optional[BranchFunction] = None
    _reference: Optional[Reference] = None

    def __post_init__(self) -> None:
        self.__doc__ = self.shape.__doc__

    def reference(self, function: Reference) -> Reference:
        """Decorator: the slow and obvious kernel, ``(op, *arrays) -> arrays``.

        It computes integers exactly and accumulates floats in float64.
        """
        self._reference = function
        return function

    def branches(self, function: BranchFunction) -> BranchFunction:
        """Decorator: the branch that an operator with sub-nets takes, if its known inputs decide it; else None."""
        self.branch = function
        return function

    def kernel(
        self,
        engine: str,
        *,
        supports: Supports = always,
        scratch: Callable[[OperatorDef, Specs, Sequence[TensorSpec]], Sequence[TensorSpec]] = no_scratch,
        work: Optional[WorkFunction] = None,
        variants: Sequence[str] = (),
        splits_work: bool = False,
    ) -> Callable[[Callable[[Call], Run]], Callable[[Call], Run]]:
        """Decorator: a fast kernel. The first one is preferred; of those that estimate their work, the one with the
        least."""

        def register(bind: Callable[[Call], Run]) -> Callable[[Call], Run]:
            self.kernels[engine] = Kernel(engine, bind, supports, scratch, work, tuple(variants), splits_work)
            return bind

        return register

    def alias(self, *types: str, domain: Optional[str] = None) -> None:
        """Declare the operator under further names, perhaps in another domain, with the same kernels, including those
        declared later.

        Call it after the reference kernel is declared.
        """
        for type in types:
            twin = copy(self)
            twin.type = type
            twin.domain = self.domain if domain is None else domain
            _declare(twin)

    def check_counts(self, op: OperatorDef) -> None:
        """ShapeError if the operator has too few or too many inputs or outputs."""
        for what, names, (low, high) in (("input", op.input, self.inputs), ("output", op.output, self.outputs)):
            if len(names) < low or (high is not None and len(names) > high):
                want = f"{low}" if high == low else f"{low} or more" if high is None else f"{low} to {high}"
                raise ShapeError(op, f"takes {want} {what}s, got {len(names)}")

    def check_inplace(self, op: OperatorDef) -> None:
        """ShapeError if an output has the name of an input that it must not overwrite."""
        if set(op.input).isdisjoint(op.output):
            return
        for index, name in enumerate(op.output):
            allowed = [op.input[i] for i in self.inplace.get(index, ()) if i < len(op.input)]
            if name and name in op.input and name not in allowed:
                raise ShapeError(op, f"output {name!r} must not overwrite the input of that name")

    def check_dtype(self, op: OperatorDef, inputs: Specs) -> None:
        """ShapeError if the operator does not take the dtype of input 0."""
        if self.dtypes and inputs and inputs[0] is not None and inputs[0].dtype.name not in self.dtypes:
            raise ShapeError(op, f"input {op.input[0]!r} must be {' or '.join(self.dtypes)}; got {describe(inputs)}")

    def infer(self, op: OperatorDef, inputs: Specs) -> List[TensorSpec]:
        """The specs of the outputs, one for each name in ``op.output``. ShapeError, ArgumentError or DataDependent."""
        self.check_counts(op)
        self.check_inplace(op)
        self.check_dtype(op, inputs)
        specs = [
            spec.with_shape(spec.shape) if any(spec is x for x in inputs) else spec for spec in self.shape(op, *inputs)
        ]
        if len(specs) < len(op.output):
            raise ShapeError(op, f"has {len(specs)} outputs with these arguments, {len(op.output)} are named")
        for name, spec in zip(op.output, specs):
            if min(spec.shape, default=0) < 0:
                raise ShapeError(op, f"output {name!r} would have the shape {spec.shape}; inputs {describe(inputs)}")
            if not spec.size and math.prod(n or 1 for n in spec.shape) * spec.dtype.itemsize > sys.maxsize:
                raise ShapeError(op, f"output {name!r} would have the shape {spec.shape}, which no array can have")
            require_memory(spec.nbytes, partial(_blob_of, op, name, spec))
        return specs[: len(op.output)]

    def evaluate(self, op: OperatorDef, inputs: Sequence[Any]) -> List[Any]:
        """The outputs that the reference kernel computes, one for each name in ``op.output``."""
        if self.view:
            return self._viewed(op, inputs)[: len(op.output)]
        if self._reference is None:
            raise UnknownOperator(op, "this operator is executed by the plan, it has no kernel of its own")
        results = [np.asarray(r) if np.isscalar(r) else r for r in self._reference(op, *inputs)]
        return results[: len(op.output)]

    def _viewed(self, op: OperatorDef, inputs: Sequence[Any]) -> List[Any]:
        specs = self.shape(op, *[None if x is None else TensorSpec.known(x) for x in inputs])
        first = inputs[0].values if isinstance(inputs[0], QuantizedTensor) else inputs[0]
        return [first.reshape(specs[0].shape), *(spec.value for spec in specs[1:])]

    def choose(
        self, op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]
    ) -> Tuple[Optional[Kernel], Dict[str, str]]:
        """The kernel to run, None for the reference kernel, and the reasons against the other engines; see
        ``kernel.choose``."""
        return choose(self.kernels, op, inputs, outputs)


def _blob_of(op: OperatorDef, name: str, spec: TensorSpec) -> str:
    return f"{op.signature()}: blob {name!r} of shape {spec.shape}"


_OPERATORS: Dict[Tuple[str, str], Operator] = {}


def _declare(schema: Operator) -> Operator:
    key = (schema.domain, schema.type)
    if key in _OPERATORS:
        raise RuntimeError(f"operator {key} is declared twice")
    return _OPERATORS.setdefault(key, schema)


def operator(
    type: str,
    *,
    inputs: Counts = 1,
    outputs: Counts = 1,
    domain: str = "",
    inplace: Optional[Inplace] = None,
    dtypes: Sequence[str] = (),
    view: bool = False,
    pure: bool = True,
    control: bool = False,
    joins: Optional[Parts] = None,
    splits: Optional[Parts] = None,
    kind: Optional[Kind] = None,
    formula: Optional[FastFormula] = None,
    fused: Optional[str] = None,
    fusion: Optional[Fusion] = None,
    multiply_adds: Optional[MultiplyAdds] = None,
    unpacks: bool = False,
) -> Callable[[ShapeFunction], Operator]:
    """Decorator over the shape function: declares an operator.

    inputs, outputs: how many; a number, or (least, most) with None for no limit. domain: "" for Caffe2's operators,
    else the domain whose semantics hold. inplace: for an output the input that it may overwrite, or several in order of
    preference, by index. dtypes: what input 0 may be; empty for no limit. view: output 0 is input 0 with another shape,
    and further outputs are constants; nothing runs, no kernel is needed. pure: equal inputs give equal outputs; random
    fills are not pure. control: the operator runs sub-nets; its reference kernel takes a SubNets before the inputs, see
    ``operators/control/control.py``. joins: where each input is in output 0, if the inputs are parts of it. Kernels do
    not copy inputs that are already in place. splits: where each output is in input 0, if the outputs are parts of it.
    Outputs already in place are not copied. kind: what it computes, if planner, engines and optimizer treat operators
    of that kind alike. formula: its fast kernel for blocks, so that it can be the activation of a fused operator.
    fused: the type, of the domain "armnet", that does this and then an addition and an activation. fusion: the parts of
    this type, if it is fused. multiply_adds: how many multiply-adds the plain algorithm takes for these shapes, see
    ``operators/common/multiply_adds.py``. Required where the reference kernel multiplies matrices; a test sees to it.
    unpacks: it converts numbers of fewer bits to floats of the same meaning; files store such weights packed.
    """

    def register(shape: ShapeFunction) -> Operator:
        schema = Operator(
            type=type,
            domain=domain,
            inputs=inputs if isinstance(inputs, tuple) else (inputs, inputs),
            outputs=outputs if isinstance(outputs, tuple) else (outputs, outputs),
            inplace={y: (x,) if isinstance(x, int) else x for y, x in (inplace or {}).items()},
            dtypes=tuple(dtypes),
            view=view,
            pure=pure,
            control=control,
            shape=shape,
            joins=joins,
            splits=splits,
            kind=kind,
            formula=formula,
            fused=fused,
            fusion=fusion,
            multiply_adds=multiply_adds,
            unpacks=unpacks,
        )
        return _declare(schema)

    return register


def find(op: OperatorDef) -> Optional[Operator]:
    """The schema of an operator, or None if none is declared."""
    return find_type(domain_of(op), op.type)


def find_type(domain: str, type: str) -> Optional[Operator]:
    """The schema of an operator type, or None if nobody declared it."""
    load_operator(domain, type)
    return _OPERATORS.get((domain, type))


def domain_of(op: OperatorDef) -> str:
    """The domain whose semantics hold; Caffe2's domain has two names."""
    return "" if op.domain == "caffe2" else op.domain


def lookup(op: OperatorDef) -> Operator:
    """The schema of an operator. UnknownOperator if there is none."""
    schema = find(op)
    if schema is None:
        raise UnknownOperator(op, f"unknown operator type {op.full_type[:100]!r}")
    return schema


def registered() -> List[Operator]:
    """Every operator that the runtime declares, sorted by domain and type."""
    for domain in FAMILIES:
        load_domain(domain)
    return [_OPERATORS[key] for key in sorted(_OPERATORS) if key[0] in FAMILIES]


def describe(specs: Specs) -> str:
    """``float32[1, 3, 8, 8], -`` for messages."""
    return ", ".join("-" if spec is None else repr(spec) for spec in specs)


def value_of(op: OperatorDef, spec: Optional[TensorSpec], what: str) -> Array:
    """The content of an input on which shapes depend; DataDependent if it is not known yet."""
    if spec is None:
        raise ShapeError(op, f"input {what!r} is required")
    if spec.value is None:
        raise DataDependent(what)
    return spec.value


def integers_of(op: OperatorDef, spec: Optional[TensorSpec], what: str) -> List[int]:
    """The content of an input on which shapes depend, a vector of integers or one integer; DataDependent if it is not
    known yet."""
    value = value_of(op, spec, what)
    if value.ndim > 1 or value.dtype.kind not in "iu":
        raise ShapeError(op, f"input {what!r} must be a vector of integers; got {describe([spec])}")
    numbers: List[int] = value.reshape(-1).tolist()
    return numbers


def require(op: OperatorDef, condition: bool, rule: str, *specs: Optional[TensorSpec]) -> None:
    """ShapeError, with the rule and the specs, unless the condition holds."""
    if not condition:
        raise ShapeError(op, f"{rule}; got {describe(specs)}" if specs else rule)


def axis_of(op: OperatorDef, axis: int, ndim: int, what: str = "axis") -> int:
    """An axis, counted from the end if negative, as an index; ArgumentError if it is out of range."""
    if not -ndim <= axis < max(ndim, 1):
        raise ArgumentError(op, f"{what} {axis} is out of range for {ndim} dimensions")
    return axis % ndim if ndim else 0
