"""The gradients of ONNX's GatherElements and GatherND, armnet's own operators."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from runtime_arm.netdef import Array, OperatorDef
from runtime_arm.operators.common.dialects import forward_form
from runtime_arm.operators.common.dtypes import FLOATS
from runtime_arm.operators.indexing.gather import element_index, gather_elements, gather_nd, tuple_index
from runtime_arm.registry.schema import Operator, axis_of, operator, require
from runtime_arm.registry.specs import TensorSpec


def _declare(forward: Operator) -> None:
    @operator(f"{forward.type}Gradient", domain="armnet", inputs=3, dtypes=FLOATS)
    def schema(op: OperatorDef, data: TensorSpec, indices: TensorSpec, dy: TensorSpec) -> List[TensorSpec]:
        """ddata = for each element the sum of dY over the places to which it was picked. Inputs: data, indices, dY."""
        (y,) = forward.shape(forward_form(op), data, indices)
        require(op, dy.shape == y.shape, f"dY must have the shape {list(y.shape)}", data, indices, dy)
        return [data]

    @schema.reference
    def reference(op: OperatorDef, data: Array, indices: Array, dy: Array) -> List[Any]:
        if forward is gather_elements:
            index = element_index(op, data.shape, indices, axis_of(op, op.get_int("axis", 0), data.ndim))
        else:
            index = tuple_index(op, data.shape, indices, op.get_int("batch_dims", 0))
        total = np.zeros(data.shape)
        np.add.at(total, index, dy.astype(np.float64))
        return [total.astype(data.dtype)]


_declare(gather_elements)
_declare(gather_nd)
