"""Rules for counting multiply-adds that several operators share.

A rule counts the multiply-adds of the plain algorithm, one sum of products per output element, even if the kernel that
runs does it differently. An operator names its rule where it is declared: ``@operator("Conv",
multiply_adds=per_output())``.
"""

from __future__ import annotations

import math
from typing import Optional, Sequence

from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.kernel import Specs
from runtime_arm.registry.schema import MultiplyAdds
from runtime_arm.registry.specs import TensorSpec


def per_output(filters: int = 1) -> MultiplyAdds:
    """Every output element is a sum over one filter, a row of the input ``filters``, (M, ...)."""

    def count(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
        return outputs[0].size * _taps(_given(inputs, filters))

    return count


def of_terms(count: int) -> MultiplyAdds:
    """Every output element is a sum of ``count`` products."""
    return lambda op, inputs, outputs: outputs[0].size * count


def per_input(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """Every element of X is multiplied by one filter: a row of input 1, (C, ...)."""
    x = _given(inputs, 0)
    return 0 if x is None else x.size * _taps(_given(inputs, 1))


def per_row(*weights: int, dims: int) -> MultiplyAdds:
    """Every number of the inputs ``weights`` is multiplied once for each row of X. A row is an index of X's first
    ``dims`` dimensions (negative: all but the last ones).
    """

    def count(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
        given = [_given(inputs, at) for at in weights]
        x = _given(inputs, 0)
        return 0 if x is None else math.prod(x.shape[:dims]) * sum(spec.size for spec in given if spec is not None)

    return count


def fully_connected(weights: int = 1) -> MultiplyAdds:
    """Every row of the output, (..., N), multiplies all of the input ``weights``."""

    def count(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
        w, y = _given(inputs, weights), outputs[0]
        return y.size * (w.size // max(y.shape[-1], 1)) if w is not None and y.shape else 0

    return count


def matrix_product(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """Every output element is a sum over a row of input 0, (..., M, K), or over a column if ``trans_a``."""
    a = _given(inputs, 0)
    if a is None or not a.shape:
        return 0
    return outputs[0].size * a.shape[-2 if a.ndim > 1 and op.get_bool("trans_a") else -1]


def gradient_products(op: OperatorDef, inputs: Specs, outputs: Sequence[TensorSpec]) -> int:
    """For inputs X, W, dY: every number of dY is multiplied with a filter for the gradient of W, and again for that of
    X, if the operator names it."""
    w, dy = _given(inputs, 1), _given(inputs, 2)
    if w is None or dy is None:
        return 0
    named = sum(1 for spec in outputs if spec.ndim > 1)
    return dy.size * _taps(w) * min(named, 2)


def _given(inputs: Specs, at: int) -> Optional[TensorSpec]:
    return inputs[at] if len(inputs) > at else None


def _taps(filters: Optional[TensorSpec]) -> int:
    return 0 if filters is None else math.prod(filters.shape[1:])


__all__ = ["fully_connected", "gradient_products", "matrix_product", "of_terms", "per_input", "per_output", "per_row"]
