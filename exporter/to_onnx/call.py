"""One operator that is being translated to ONNX: its arguments, what is known about its inputs, and its nodes."""

from __future__ import annotations

from typing import Any, List, Optional, Protocol, Sequence, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from exporter.onnx.weights import DTYPES
from exporter.to_onnx.graph import Graph
from exporter.to_onnx.operand import ONNX_NUMBERS, Operand, Results, constant_value, inferred
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array, NetDef, OperatorDef


class Translates(Protocol):
    """How a rule gets other operators and sub-nets translated: ``translator.Translator``, which calls the rules."""

    graph: Graph

    def nested(self) -> Translates:
        """A translator into a graph inside this one."""
        ...

    def add_net(self, net: NetDef) -> None:
        """Translate every operator of a net whose inputs are defined in the graph."""
        ...

    def results(self, op: OperatorDef, operands: Sequence[Operand]) -> Results:
        """Add the nodes of an operator; the names of its results, which are not bound to blobs yet."""
        ...


class Call:
    """What a rule is given. Inputs are counted from 0; ``x`` is the first."""

    def __init__(self, op: OperatorDef, operands: Sequence[Operand], translator: Translates):
        self.op = op
        self.operands = list(operands)
        self.translator = translator
        self.graph = translator.graph

    # Inputs and outputs

    @property
    def x(self) -> str:
        """The name of the first input."""
        return self.input(0)

    @property
    def inputs(self) -> List[str]:
        """The names of the inputs; empty for an input that is left out."""
        return [operand.name for operand in self.operands]

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.operands) and bool(self.operands[index].name)

    def input(self, index: int) -> str:
        """The name of a required input."""
        if not self.has(index):
            raise ExportError(f"input {index} is required")
        return self.operands[index].name

    def wants(self, index: int) -> bool:
        """Whether anything reads the output."""
        return index < len(self.op.output) and self.graph.wants(self.op.output[index])

    def refuse_outputs_from(self, index: int) -> None:
        """ExportError if anything reads the output of this index or a later one."""
        read = [name for i, name in enumerate(self.op.output) if i >= index and self.wants(i)]
        if read:
            raise ExportError(f"ONNX has no operator that gives the output {read[0]!r}")

    # Facts about the inputs

    def dtype(self, index: int = 0) -> np.dtype[Any]:
        """The data type of an input, float32 if it is unknown."""
        if not self.has(index):
            return np.dtype(np.float32)
        name, known = self.operands[index]
        found = next((spec.dtype for spec in known if spec is not None), None)
        return found or DTYPES.get(self.graph.types.dtype(name), np.dtype(np.float32))

    def known_dims(self, index: int = 0) -> Optional[Tuple[Optional[int], ...]]:
        """The shape of an input, with None for open sizes; None if the rank is unknown."""
        if not self.has(index):
            return None
        name, known = self.operands[index]
        shapes = [spec.shape for spec in known if spec is not None]
        if not shapes or len(shapes) < len(known) or len(set(map(len, shapes))) > 1:
            return self.graph.types.dims(name)
        return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes))

    def rank(self, index: int = 0) -> int:
        """The number of an input's dimensions. ExportError if it is unknown."""
        dims = self.known_dims(index)
        if dims is None:
            raise ExportError(
                f"the number of dimensions of {self.op.input[index]!r} must be known: give the shapes of "
                "the inputs (--shape)"
            )
        return len(dims)

    def shape(self, index: int = 0) -> Tuple[int, ...]:
        """The shape of an input. ExportError if any of it is open."""
        dims = self.known_dims(index) or ()
        if self.rank(index) != len(dims) or None in dims:
            raise ExportError(
                f"the shape of {self.op.input[index]!r} must be known and not change from run to run: "
                "give the shapes of the inputs (--shape)"
            )
        return tuple(n for n in dims if n is not None)

    def value(self, index: int) -> Optional[Array]:
        """The content of a constant input, else None."""
        return constant_value(self.operands[index].known) if self.has(index) else None

    # Nodes

    def node(self, type: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; its name. Attributes that are None are left out; a dtype becomes its number."""
        return self.nodes(type, inputs, 1, domain, **attributes)[0]

    def nodes(self, type: str, inputs: Sequence[str], count: int, domain: str = "", **attributes: Any) -> List[str]:
        """Add a node with ``count`` outputs; their names."""
        outputs = [self.graph.fresh(f"{self.op.output[0]}_{type}") for _ in range(count)]
        node = helper.make_node(type, trimmed(inputs), outputs, domain=domain or None)
        given = {name: value for name, value in attributes.items() if value is not None}
        node.attribute.extend(attribute(name, value) for name, value in given.items())
        self.graph.nodes.append(node)
        return outputs

    def constant(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant."""
        return self.graph.constant(f"{self.op.output[0]}_constant", np.asarray(value, dtype))

    def number(self, value: float, like: int = 0) -> str:
        """The name of a constant number with the data type of an input."""
        return self.constant(value, self.dtype(like))

    def ints(self, *values: int) -> str:
        """The name of a constant vector of integers, such as a shape or axes."""
        return self.constant(np.array(values, np.int64))

    # Helpers that many rules use

    def reshaped(self, name: str, *shape: int) -> str:
        """The blob in this shape; 0 keeps a dimension, -1 takes the remaining elements."""
        return self.node("Reshape", name, self.ints(*shape))

    def weight(self, index: int, change: Any) -> Optional[str]:
        """A constant input changed by ``change(array)``; None if it is not constant."""
        value = self.value(index)
        return None if value is None else self.constant(change(value))

    def transposed(self, name: str, axes: Sequence[int]) -> str:
        """The blob with its dimensions in this order."""
        return name if list(axes) == sorted(axes) else self.node("Transpose", name, perm=list(axes))

    def channels_first(self, name: str, rank: int) -> str:
        """(N, image, C) as (N, C, image); the original blob if ``channels_last`` made this one from it."""
        return self.graph.channels_first.get(name) or self.transposed(name, [0, rank - 1, *range(1, rank - 1)])

    def channels_last(self, name: str, rank: int) -> str:
        """(N, C, image) as (N, image, C)."""
        turned = self.transposed(name, [0, *range(2, rank), 1])
        self.graph.channels_first[turned] = name
        return turned

    def translate(self, op: OperatorDef, operands: Sequence[Operand]) -> Operand:
        """The first output of another operator, translated here, on these operands."""
        results = self.translator.results(op, operands)
        name = results if isinstance(results, str) else results[0]
        return Operand(name or "", inferred(op, operands)[0])


def trimmed(names: Sequence[str]) -> List[str]:
    """Without the empty names at the end."""
    end = len(names)
    while end and not names[end - 1]:
        end -= 1
    return list(names[:end])


def attribute(name: str, value: Any) -> onnx.AttributeProto:
    """An attribute of a node; an empty list is one of integers."""
    if isinstance(value, np.dtype):
        return helper.make_attribute(name, ONNX_NUMBERS[value])
    if isinstance(value, np.ndarray):
        return helper.make_attribute(name, numpy_helper.from_array(value))
    if isinstance(value, (list, tuple)) and not len(value):
        return helper.make_attribute(name, [], attr_type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, value)
