"""The graph that a net is translated into: its tensors, and the operations that are added to it."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from exporter.to_tflite import model
from exporter.to_tflite.layout import Order, moves_nothing, plain, turns
from exporter.to_tflite.model import Operation, Quantization, Tensor
from exporter.to_tflite.operators import FUSING
from runtime_arm.errors import ExportError
from runtime_arm.registry.specs import TensorSpec


class Operand(NamedTuple):
    """A blob: what is known of it, and the tensor that holds it in some order of dimensions.

    A constant whose tensor nobody has asked for has none yet, nor has the reshaped blob ``flattened``.
    """

    spec: TensorSpec
    tensor: Optional[int] = None
    order: Order = ()
    flattened: Optional[Operand] = None


class Graph:
    """Adds tensors and operations to ``built``. Equal constants are stored once.

    ``all`` are the graphs of the model so far, and ``number`` is this one's place among them.
    """

    def __init__(self, wanted: Set[str], name: str = "main", all: Optional[List[Graph]] = None) -> None:
        self.built = model.Graph(name)
        self.wanted = wanted
        self.all: List[Graph] = [] if all is None else all
        self.number = len(self.all)
        self.all.append(self)
        self.rescaled: Dict[int, Quantization] = {}  # tensors that a CONCATENATION makes numbers of this scale of
        self.signed: Dict[int, int] = {}  # tensors of uint8, and the same numbers as int8
        self._names: Set[str] = set()
        self._constants: Dict[Any, int] = {}
        self._turned: Dict[Tuple[int, Tuple[int, ...]], int] = {}
        self._reshaped: Dict[Tuple[int, Tuple[int, ...]], int] = {}

    def another(self, name: str) -> Graph:
        """A further graph of the model, with no outputs yet."""
        return Graph(set(), name, self.all)

    def copied(self, number: int, name: str) -> int:
        """A tensor of its own for an output that is an input, a constant or another output."""
        source = self[number]
        y = self.tensor(name, source.shape, source.dtype, source.quantization)
        sizes = list(map(int, source.shape))
        shape = self.constant(np.array(sizes, np.int32))
        self.emit(Operation("RESHAPE", [number, shape], [y], {"NewShape": sizes}))
        return y

    def tensor(self, name: str, shape: Sequence[int], dtype: Any, quantization: Optional[Quantization] = None) -> int:
        """The number of a new tensor."""
        return self._add(Tensor(self._fresh(name), tuple(map(int, shape)), np.dtype(dtype), quantization))

    def constant(self, value: Any, name: str = "constant", quantization: Optional[Quantization] = None) -> int:
        """The number of a tensor with this content."""
        array = np.asarray(value)
        key = array.dtype.str, array.shape, array.tobytes(), quantization
        if key not in self._constants:
            self._constants[key] = self._add(Tensor(self._fresh(name), array.shape, array.dtype, quantization, array))
        return self._constants[key]

    def _add(self, tensor: Tensor) -> int:
        self.built.tensors.append(tensor)
        return len(self.built.tensors) - 1

    def _fresh(self, name: str) -> str:
        found, count = name, 1
        while found in self._names:
            found, count = f"{name}_{count}", count + 1
        self._names.add(found)
        return found

    def __getitem__(self, number: int) -> Tensor:
        return self.built.tensors[number]

    def renamed(self, number: int, name: str) -> str:
        """The name itself, or a free one like it, for a tensor that is to be renamed."""
        self._names.discard(self[number].name)
        return self._fresh(name)

    def emit(self, operation: Operation) -> None:
        """Add an operation."""
        self.built.operations.append(operation)

    def take(self, operand: Operand, order: Optional[Order], name: str) -> int:
        """The number of a tensor that holds the blob in this order; None: in the blob's own."""
        order = plain(operand.spec.ndim) if order is None else order
        if operand.flattened is not None:
            whole = self.reshaped(self.take(operand.flattened, None, name), operand.spec.shape)
            return self.turned(whole, order)
        if operand.tensor is None:
            if operand.spec.value is None:
                raise ExportError(f"{name!r} has no value")
            return self.constant(np.ascontiguousarray(np.transpose(operand.spec.value, order)), name)
        return self.turned(operand.tensor, turns(operand.order, order))

    def turned(self, number: int, permutation: Sequence[int]) -> int:
        """The tensor with its dimensions permuted."""
        if list(permutation) == sorted(permutation):
            return number
        key = number, tuple(permutation)
        if key not in self._turned:
            source = self[number]
            shape = [source.shape[axis] for axis in permutation]
            if moves_nothing(source.shape, permutation):
                self._turned[key] = self.reshaped(number, shape)
            else:
                y = self.tensor(f"{source.name}_transposed", shape, source.dtype, source.quantization)
                self.emit(Operation("TRANSPOSE", [number, self.constant(np.array(permutation, np.int32))], [y]))
                self._turned[key] = y
                self._turned[y, tuple(turns(tuple(permutation), plain(len(shape))))] = number
        return self._turned[key]

    def reshaped(self, number: int, shape: Sequence[int]) -> int:
        """The tensor in another shape."""
        source = self[number]
        if source.shape == tuple(shape):
            return number
        if source.value is not None:
            return self.constant(source.value.reshape(shape), source.name, source.quantization)
        sizes = tuple(int(n) for n in shape)
        if (number, sizes) not in self._reshaped:
            y = self.tensor(f"{source.name}_reshaped", sizes, source.dtype, source.quantization)
            self.emit(
                Operation("RESHAPE", [number, self.constant(np.array(sizes, np.int32))], [y], {"NewShape": sizes})
            )
            self._reshaped[number, sizes] = y
        return self._reshaped[number, sizes]


def fuse_activations(graph: model.Graph) -> None:
    """Let operations apply the activation that follows, if nothing else reads their result.

    An activation of integers that also changes their scale stays: a pool would ignore the new scale, and a convolution
    would round once instead of twice.
    """
    numbers = {"RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
    readers: Dict[int, int] = {}
    for operation in graph.operations:
        for number in operation.inputs:
            readers[number] = readers.get(number, 0) + 1
    makers = {operation.outputs[0]: operation for operation in graph.operations}
    kept: List[Operation] = []
    for operation in graph.operations:
        maker = makers.get(operation.inputs[0]) if operation.type in numbers else None
        if (
            maker is not None
            and maker.type in FUSING
            and readers[operation.inputs[0]] == 1
            and operation.inputs[0] not in graph.outputs
            and not maker.options.get("FusedActivationFunction")
            and _scale_of(graph, operation.inputs[0]) == _scale_of(graph, operation.outputs[0])
        ):
            maker.options["FusedActivationFunction"] = numbers[operation.type]
            maker.outputs = operation.outputs
            makers[operation.outputs[0]] = maker
        else:
            kept.append(operation)
    graph.operations = kept


def _scale_of(graph: model.Graph, number: int) -> Optional[Quantization]:
    return graph.tensors[number].quantization


# Operators whose operands and results have one scale, and how many of their inputs hold such numbers.
_ONE_SCALE = {
    "BROADCAST_TO": 1,
    "DEPTH_TO_SPACE": 1,
    "GATHER": 1,
    "GATHER_ND": 1,
    "MAXIMUM": 2,
    "MAX_POOL_2D": 1,
    "MINIMUM": 2,
    "MIRROR_PAD": 1,
    "PACK": 99,
    "PAD": 1,
    "REDUCE_MAX": 1,
    "REDUCE_MIN": 1,
    "RESHAPE": 1,
    "RESIZE_BILINEAR": 1,
    "RESIZE_NEAREST_NEIGHBOR": 1,
    "SLICE": 1,
    "SPACE_TO_DEPTH": 1,
    "STRIDED_SLICE": 1,
    "TILE": 1,
    "TRANSPOSE": 1,
}


def spread_scales(graph: model.Graph) -> None:
    """Give tensors the scale of those that hold the same numbers, forwards and backwards."""
    while True:
        changed = False
        for operation in (*graph.operations, *graph.operations[::-1]):
            numbers = [*operation.inputs[: _ONE_SCALE.get(operation.type, 0)], *operation.outputs]
            if operation.type not in _ONE_SCALE or graph.tensors[numbers[0]].dtype.kind not in "iu":
                continue
            known = next((q for n in numbers if (q := graph.tensors[n].quantization) is not None), None)
            for number in numbers:
                if known is not None and graph.tensors[number].quantization is None:
                    graph.tensors[number].quantization, changed = known, True
        if not changed:
            return


def drop_unread(graph: model.Graph) -> None:
    """Remove the operations whose results nothing reads, and the tensors that no operation mentions any more."""
    alive = set(graph.outputs)
    kept: List[Operation] = []
    for operation in reversed(graph.operations):
        if alive.intersection(operation.outputs):
            alive.update(operation.inputs)
            kept.append(operation)
    graph.operations = kept[::-1]
    mentioned = sorted(
        {n for op in graph.operations for n in (*op.inputs, *op.outputs) if n != model.MISSING}
        | set(graph.inputs)
        | set(graph.outputs)
    )
    new = {old: number for number, old in enumerate(mentioned)}
    new[model.MISSING] = model.MISSING
    graph.tensors = [graph.tensors[old] for old in mentioned]
    for operation in graph.operations:
        operation.inputs = [new[number] for number in operation.inputs]
        operation.outputs = [new[number] for number in operation.outputs]
    graph.inputs, graph.outputs = ([new[number] for number in part] for part in (graph.inputs, graph.outputs))
