"""ONNX's Einsum."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.linear.caffe2 import blas_multiplies
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Call, Run, Specs
from runtime_arm.registry.schema import operator, require
from runtime_arm.registry.specs import TensorSpec

ELLIPSIS = "..."
Labels = Tuple[str, ...]


class Equation(NamedTuple):
    """The labels of every operand's dimensions. Those of an ellipsis are "...0", "...1", counted from the right."""

    inputs: Tuple[Labels, ...]
    output: Labels

    @property
    def once(self) -> bool:
        """Whether no operand has the same label twice."""
        return all(len(set(labels)) == len(labels) for labels in self.inputs)


def equation_of(op: OperatorDef, inputs: Sequence[TensorSpec]) -> Equation:
    """Parses the equation for these operands. ArgumentError if it is malformed, ShapeError if it does not fit them."""
    text = op.get_str("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    for term in [*terms, right]:
        letters = term.replace(ELLIPSIS, "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise ArgumentError(
                op, f"an equation has letters, at most one ellipsis per term, commas and one arrow; got {text!r}"
            )
    require(op, len(terms) == len(inputs), f"the equation {text!r} has {len(terms)} terms for {len(inputs)} inputs")
    labels = tuple(_labels(op, term, spec) for term, spec in zip(terms, inputs))
    hidden = max(([label for label in term if label.startswith(ELLIPSIS)] for term in labels), key=len)
    if not arrow:
        letters = left.replace(ELLIPSIS, "")
        right = ELLIPSIS * bool(hidden) + "".join(sorted(c for c in set(letters) - {","} if letters.count(c) == 1))
    before, dots, after = right.partition(ELLIPSIS)
    output = (*before, *(hidden if dots else ()), *after)
    known = set(chain(*labels))
    if len(set(output)) < len(output) or not known.issuperset(output) or (hidden and not dots):
        raise ArgumentError(
            op, f"the output of {text!r} must have labels of the inputs, each once, and the ellipsis if they have one"
        )
    return Equation(labels, output)


def _labels(op: OperatorDef, term: str, spec: TensorSpec) -> Labels:
    before, dots, after = term.partition(ELLIPSIS)
    rest = spec.ndim - len(before) - len(after)
    require(op, rest >= 0 if dots else rest == 0, f"the term {term!r} does not fit its input", spec)
    return (*before, *[f"{ELLIPSIS}{i}" for i in reversed(range(rest))], *after)


def _products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """One multiply-add per combination of label values, for each operand but the first."""
    specs = [spec for spec in inputs if spec is not None]
    sizes: Dict[str, int] = {}
    for labels, spec in zip(equation_of(op, specs).inputs, specs):
        sizes.update((label, max(size, sizes.get(label, 0))) for label, size in zip(labels, spec.shape))
    return (len(specs) - 1) * math.prod(sizes.values())


@operator("Einsum", domain="onnx", inputs=(1, None), multiply_adds=_products)
def einsum(op: OperatorDef, *inputs: TensorSpec) -> List[TensorSpec]:
    """Y by Einstein's summation convention. ``equation`` as in numpy.einsum; dimensions of 1 broadcast."""
    same = all(spec.dtype == inputs[0].dtype for spec in inputs)
    require(op, same and inputs[0].dtype.kind in "iuf", "the inputs must be numbers of one type", *inputs)
    equation = equation_of(op, inputs)
    sizes: Dict[str, int] = {}
    for labels, spec in zip(equation.inputs, inputs):
        for label, size in zip(labels, spec.shape):
            known = sizes.get(label, 1)
            require(
                op, 1 in (size, known) or size == known, f"dimension {label!r} has both {known} and {size} elements"
            )
            sizes[label] = size if known == 1 else known
    return [inputs[0].with_shape([sizes[label] for label in equation.output])]


@einsum.reference
def einsum_reference(op: OperatorDef, *inputs: Array) -> Sequence[Any]:
    wide = np.float64 if inputs[0].dtype.kind == "f" else inputs[0].dtype
    equation = equation_of(op, [TensorSpec.known(x) for x in inputs])
    numbers = {label: i for i, label in enumerate(dict.fromkeys(chain(*equation.inputs)))}
    operands = [
        part
        for x, labels in zip(inputs, equation.inputs)
        for part in (x.astype(wide), [numbers[label] for label in labels])
    ]
    y = np.einsum(*operands, [numbers[label] for label in equation.output])
    return [np.asarray(y).astype(inputs[0].dtype)]


class Product(NamedTuple):
    """An einsum as a product of stacks of matrices: labels of the stack, the rows of A, the sum, the columns of B."""

    stack: Labels
    row: str
    terms: str
    column: str


def product_of(equation: Equation) -> Optional[Product]:
    """The einsum as A @ B; None if it is no such product.

    Further labels that only A or only B has become part of the stack.
    """
    if len(equation.inputs) != 2 or not equation.once:
        return None
    a, b = equation.inputs
    summed = {label for label in (*a, *b) if label not in equation.output}
    rows = [label for label in a if label not in b and label in equation.output]
    columns = [label for label in b if label not in a and label in equation.output]
    if len(summed) != 1 or not summed <= set(a) & set(b) or not rows or not columns:
        return None
    stack = tuple(label for label in equation.output if label not in (rows[-1], columns[-1]))
    return Product(stack, rows[-1], summed.pop(), columns[-1])


def _supports(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> Optional[str]:
    specs = [spec for spec in inputs if spec is not None]
    equation = equation_of(op, specs)
    product = product_of(equation)
    if product is None:
        return "the equation is not a product of two matrices"
    sizes = [dict(zip(labels, spec.shape)) for labels, spec in zip(equation.inputs, specs)]
    if sizes[0][product.terms] != sizes[1][product.terms]:
        return f"dimension {product.terms!r} broadcasts"
    return blas_multiplies(op, inputs, outputs)


@einsum.kernel("NUMPY", supports=_supports)
def einsum_numpy(call: Call) -> Run:
    """One numpy.matmul over transposed views."""
    equation = equation_of(call.op, [spec for spec in call.in_specs if spec is not None])
    product = product_of(equation)
    assert product is not None
    a, b = (
        _view(x, labels, (*product.stack, *matrix))
        for x, labels, matrix in zip(
            call.inputs, equation.inputs, ((product.row, product.terms), (product.terms, product.column))
        )
    )
    y = _view(call.outputs[0], equation.output, (*product.stack, product.row, product.column))
    return partial(np.matmul, a, b, out=y)


def _view(x: Array, labels: Labels, wanted: Sequence[str]) -> Array:
    """The array with its dimensions in this order. Dimensions that it lacks become 1."""
    present = [label for label in wanted if label in labels]
    view: Array = x.transpose([labels.index(label) for label in present])
    return view[tuple(slice(None) if label in labels else None for label in wanted)]
