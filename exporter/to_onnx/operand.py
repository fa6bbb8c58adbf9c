"""What is known of the blobs that an operator reads and writes while it is translated to ONNX."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from exporter.onnx.weights import DTYPES
from optimize.rewriting.shapes import infer_more
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.specs import TensorSpec

# What is known of a blob: one spec for each set of sizes tried in place of the open dimensions of the pair's inputs.
Known = Tuple[Optional[TensorSpec], ...]
# The names that hold an operator's outputs: one name, or one for each output, None for an output that nothing reads.
Results = Union[str, Sequence[Optional[str]]]

ONNX_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class Operand(NamedTuple):
    """A blob's name in the graph, empty for an input that is left out, and what is known of the blob."""

    name: str
    known: Known


def inferred(op: OperatorDef, operands: Sequence[Operand]) -> List[Known]:
    """What is known of each output of the operator."""
    fresh = tuple(f"{name} (new)" if name and name in op.input else name for name in op.output)
    net = NetDef(op=(op.replace(output=fresh),))
    inputs = [(blob, operand) for blob, operand in zip(op.input, operands) if blob]
    count = max((len(operand.known) for _, operand in inputs), default=1)
    choices = [infer_more(net, {blob: _of_choice(operand, i) for blob, operand in inputs})[0] for i in range(count)]
    return [tuple(choice.get(name) for choice in choices) for name in fresh]


def _of_choice(operand: Operand, index: int) -> Optional[TensorSpec]:
    return operand.known[index] if index < len(operand.known) else None


def constant_value(known: Known) -> Optional[Array]:
    """The content of a blob if it is known and the same for all open sizes; None for a quantised blob."""
    values = [spec.value for spec in known if spec is not None and spec.value is not None and spec.quantization is None]
    if not values or len(values) < len(known):
        return None
    same = all(value is values[0] or np.array_equal(values[0], value) for value in values)
    return values[0] if same else None
