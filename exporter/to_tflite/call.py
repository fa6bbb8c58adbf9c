"""One operator that is being translated to TFLite: its arguments, what is known of its blobs, and its operations."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple, Union

import numpy as np

from exporter.to_tflite.graph import Graph, Operand
from exporter.to_tflite.layout import Order, held, plain
from exporter.to_tflite.model import Operation, Quantization
from exporter.to_tflite.operators import fields_of
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array, NetDef, OperatorDef
from runtime_arm.registry.specs import Shape, TensorSpec

# What holds an operator's outputs: one operand, or one for each output, None for an output that nothing reads.
Results = Union[Operand, Sequence[Optional[Operand]]]


class Translates(Protocol):
    """How a rule gets other operators translated: ``translator.Translator``, which calls the rules."""

    graph: Graph
    blobs: Dict[str, Operand]

    def into(self, graph: Graph, blobs: Dict[str, Operand]) -> Translates:
        """A translator into another graph of the model, which has these blobs."""
        ...

    def add_net(self, net: NetDef) -> None:
        """Translate every operator of a net whose inputs are defined."""
        ...

    def results(self, op: OperatorDef, operands: Sequence[Optional[Operand]]) -> List[Optional[Operand]]:
        """What holds the outputs of an operator on these operands."""
        ...


class Call:
    """What a rule is given. Inputs and outputs are counted from 0; tensors are numbers in the graph."""

    def __init__(
        self,
        op: OperatorDef,
        operands: Sequence[Optional[Operand]],
        outputs: Sequence[TensorSpec],
        translator: Translates,
    ):
        self.op = op
        self.operands = list(operands)
        self.outputs = list(outputs)
        self.translator = translator
        self.graph = translator.graph

    # Inputs

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.operands) and self.operands[index] is not None

    def operand(self, index: int = 0) -> Operand:
        """A required input."""
        found = self.operands[index] if index < len(self.operands) else None
        if found is None:
            raise ExportError(f"input {index} is required")
        return found

    def spec(self, index: int = 0) -> TensorSpec:
        """Shape and data type of an input."""
        return self.operand(index).spec

    def value(self, index: int) -> Optional[Array]:
        """The content of a constant input, else None."""
        return self.spec(index).value if self.has(index) else None

    def constant_value(self, index: int, what: str) -> Array:
        """The content of an input that must be constant."""
        value = self.value(index)
        if value is None:
            raise ExportError(f"{what} {self.op.input[index]!r} must be constant")
        return value

    def order(self, index: int = 0) -> Order:
        """The order in which the input's tensor has its dimensions."""
        operand = self.operand(index)
        return operand.order if operand.tensor is not None else plain(operand.spec.ndim)

    def take(self, index: int = 0, order: Optional[Order] = None) -> int:
        """The tensor that holds an input in this order; None: in the blob's own."""
        return self.graph.take(self.operand(index), order, self.op.input[index] if self.op.input else "constant")

    def as_held(self, index: int = 0) -> int:
        """The tensor that holds an input, in whatever order it has."""
        return self.take(index, self.order(index))

    def wants(self, index: int) -> bool:
        """Whether anything reads the output, and it is not known before the net runs."""
        read = index < len(self.op.output) and self.op.output[index] in self.graph.wanted
        return read and self.outputs[index].value is None

    def refuse_outputs_from(self, index: int) -> None:
        """ExportError if anything reads the output of this index or a later one."""
        read = [name for i, name in enumerate(self.op.output) if i >= index and self.wants(i)]
        if read:
            raise ExportError(f"TFLite has no operator that gives the output {read[0]!r}")

    # Operations

    def emit(
        self,
        type: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        dtype: Any = None,
        quantization: Optional[Quantization] = None,
        custom: Optional[bytes] = None,
        **options: Any,
    ) -> int:
        """Add an operation with one output; its tensor. dtype: of the output; that of output 0 by default."""
        name = f"{self.op.output[0]}_{type.lower()}" if self.op.output else type.lower()
        y = self.graph.tensor(name, shape, self.outputs[0].dtype if dtype is None else dtype, quantization)
        self.graph.emit(Operation(type, list(inputs), [y], self._options(type, options), custom))
        return y

    def emit_many(
        self,
        type: str,
        inputs: Sequence[int],
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[Any],
        custom: Optional[bytes] = None,
        **options: Any,
    ) -> List[int]:
        """Add an operation with several outputs; their tensors."""
        name = f"{self.op.output[0]}_{type.lower()}"
        outputs = [self.graph.tensor(name, shape, dtype) for shape, dtype in zip(shapes, dtypes)]
        self.graph.emit(Operation(type, list(inputs), outputs, self._options(type, options), custom))
        return outputs

    def _options(self, type: str, options: Any) -> Any:
        unknown = set(options) - set(fields_of(type))
        assert not unknown, f"{type} has no options {unknown}"
        return options

    def same_shape(self, type: str, *inputs: int, dtype: Any = None, **options: Any) -> int:
        """Add an operation whose output has the shape of its first input."""
        return self.emit(type, inputs, self.graph[inputs[0]].shape, dtype, **options)

    def as_int8(self, tensor: int, quantization: Quantization) -> int:
        """A tensor of uint8 as int8 of this scale; one for all that read it."""
        signed = self.graph.signed
        if tensor not in signed:
            signed[tensor] = self.same_shape("QUANTIZE", tensor, dtype=np.int8, quantization=quantization)
        return signed[tensor]

    def ints(self, *values: int) -> int:
        """A constant vector of int32, such as axes or a shape."""
        return self.graph.constant(np.array(values, np.int32))

    def number(self, value: float, like: int = 0) -> int:
        """A constant number of the data type of an input."""
        return self.graph.constant(np.array(value, self.spec(like).dtype))

    # Results

    def result(self, tensor: int, order: Optional[Order] = None, index: int = 0) -> Operand:
        """The output, held by this tensor in this order; None: in the blob's own."""
        spec = self.outputs[index]
        return Operand(spec, tensor, plain(spec.ndim) if order is None else order)

    def shape_in(self, order: Order, index: int = 0) -> Shape:
        """The shape of an output in this order."""
        return held(self.outputs[index].shape, order)

    def translate(self, op: OperatorDef, *operands: Optional[Operand]) -> Operand:
        """The first output of another operator, translated here."""
        found = self.translator.results(op, operands)[0]
        assert found is not None
        return found

    # Helpers of many rules

    def joint_order(self, indices: Sequence[int]) -> Order:
        """The order in which the largest of these inputs is held, among those with the most dimensions."""
        rank = max((self.spec(index).ndim for index in indices), default=0)
        best, size = plain(rank), -1
        for index in indices:
            operand = self.operand(index)
            if operand.tensor is not None and operand.spec.ndim == rank and operand.spec.size > size:
                best, size = operand.order, operand.spec.size
        return best

    def broadcast(self, index: int, order: Order, shape: Optional[Shape] = None) -> int:
        """An input as an operand of an elementwise operation on tensors of this order.

        shape: the input's shape before leading dimensions of 1 are added, where it is not its own.
        """
        operand, rank = self.operand(index), len(order)
        own = operand.spec.shape if shape is None else shape
        wide: Tuple[int, ...] = (1,) * (rank - len(own)) + tuple(own)
        if operand.spec.value is not None and operand.tensor is None:
            if operand.spec.size == 1:
                return self.graph.constant(operand.spec.value.reshape(()))
            return self.graph.constant(np.ascontiguousarray(operand.spec.value.reshape(wide).transpose(order)))
        if wide == operand.spec.shape:
            return self.take(index, order)
        reshaped = self.graph.reshaped(self.take(index), wide)
        return self.graph.turned(reshaped, list(order))
