"""Random ONNX graphs: operators that read each other's outputs, with the sizes and types that onnx infers for them."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from runtime_arm.netdef import Array

FLOAT, HALF, DOUBLE, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL
INT64, INT32, UINT8, INT8 = TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.INT8
FLOATS, NUMBERS = (FLOAT,) * 6 + (HALF, DOUBLE), (FLOAT,) * 6 + (HALF, DOUBLE, INT64, INT32)
OPSETS = (13, 15, 17, 18, 20, 21)
SHAPES: Tuple[Tuple[Any, ...], ...] = (
    ("n", 4, 8, 8),
    ("n", 3, "h", "w"),
    (2, 4, 6, 5),
    (1, 8, 9, 9),
    (1, 6, 4, 4),
    ("n", 8, 8, 4),
    ("n", "t", 8),
    ("n", 4, 7),
    (3, 4, 8),
    ("n", 6),
    ("n", 12),
)
MOST_NODES, MOST_TRIALS = 16, 80
LARGEST = 1 << 15  # elements of a blob
RECENT = 3  # blobs, of which one is read more often than not, so that graphs grow long

T = TypeVar("T")
Size = Union[int, str]  # a str names a size that is open; "" is one that nobody knows


class Unsuitable(Exception):
    """The graph has nothing that a kind of operator could read."""


class Value(NamedTuple):
    """A blob of the graph."""

    name: str
    type: int
    shape: Tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def known(self, axis: int) -> int:
        """The size along an axis. Unsuitable if it is open."""
        size = self.shape[axis]
        if not isinstance(size, int) or size == 0:
            raise Unsuitable
        return size


Reads = Union[Value, str]
Test = Callable[[Value], bool]


class Graph:
    """A graph that grows by one kind of operators at a time; its number is the seed of all random choices."""

    def __init__(self, number: int):
        self._rng = np.random.default_rng(number)
        self.opset = self.choose(*OPSETS)
        self.nodes: List[NodeProto] = []
        self.weights: Dict[str, Array] = {}
        self.inputs: List[Value] = []
        self._values: List[Value] = []

    # What is drawn

    def choose(self, *options: T) -> T:
        return options[int(self._rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self._rng.integers(low, high + 1))

    def axis(self, value: Value) -> int:
        """An axis of the value, counted from the front."""
        if not value.rank:
            raise Unsuitable
        return self.integer(0, value.rank - 1)

    def either(self, axis: int, value: Value) -> int:
        """The axis, counted from the front or from the back."""
        return axis - self.choose(0, value.rank)

    def shuffled(self, count: int) -> List[int]:
        return [int(place) for place in self._rng.permutation(count)]

    def value(
        self, types: Sequence[int] = (FLOAT,), ranks: Sequence[int] = (1, 2, 3, 4, 5), fits: Optional[Test] = None
    ) -> Value:
        """A blob of one of these types and ranks, often one of the last. Unsuitable if there is none."""
        wanted = self.choose(*types)
        found = [one for one in self._values if one.type == wanted and one.rank in ranks and (not fits or fits(one))]
        if not found:
            raise Unsuitable
        return self.choose(*(found[-RECENT:] if self.chance(0.6) else found))

    def like(self, value: Value) -> Value:
        """A blob of the same type and shape, perhaps the same."""
        return self.choose(*(one for one in self._values if (one.type, one.shape) == (value.type, value.shape)))

    def has(self, type: str) -> bool:
        """Whether there is an operator of this type."""
        return any(node.op_type == type for node in self.nodes)

    # What it is made of

    def input(self, type: int, shape: Sequence[Size]) -> None:
        value = Value(f"x{len(self.inputs)}", type, tuple(shape))
        self.inputs.append(value)
        self._values.append(value)

    def constant(self, values: Any, type: int = INT64) -> str:
        """A weight that holds these values."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values, helper.tensor_dtype_to_np_dtype(type))
        return name

    def weight(self, *shape: int, type: int = FLOAT, scale: float = 0.0) -> str:
        """A weight of random values, scaled so that products keep their magnitude."""
        scale = scale or 1 / max(1, prod(shape[1:])) ** 0.5
        return self.constant(self._rng.standard_normal(shape) * scale, type)

    def emit(self, type: str, inputs: Sequence[Reads], outputs: int = 1, domain: str = "", **attributes: Any) -> Value:
        """An operator; its first output. Unsuitable if onnx finds that it does not fit its inputs."""
        return self.emit_all(type, inputs, outputs, domain, **attributes)[0]

    def emit_all(
        self, type: str, inputs: Sequence[Reads], outputs: int, domain: str = "", **attributes: Any
    ) -> List[Value]:
        """An operator; all of its outputs."""
        names = [f"y{len(self.nodes)}_{place}" for place in range(outputs)]
        reads = [one if isinstance(one, str) else one.name for one in inputs]
        attributes = {name: value for name, value in attributes.items() if value is not None}
        node = helper.make_node(type, reads, names, domain=domain, **attributes)
        types = self._inferred(node, [one for one in inputs if isinstance(one, Value)])
        return self.add(node, [_value(name, types[name]) for name in names])

    def add(self, node: NodeProto, outputs: List[Value]) -> List[Value]:
        """A node whose outputs are known."""
        if any(prod(size if isinstance(size, int) else 1 for size in one.shape) > LARGEST for one in outputs):
            raise Unsuitable
        self.nodes.append(node)
        self._values += outputs
        return outputs

    def _inferred(self, node: NodeProto, reads: Sequence[Value]) -> Dict[str, TypeProto]:
        types = {
            one.name: helper.make_tensor_type_proto(one.type, [size or None for size in one.shape]) for one in reads
        }
        weights = {name: self.weights[name] for name in node.input if name in self.weights}
        for name, array in weights.items():
            types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        data = {name: numpy_helper.from_array(array, name) for name, array in weights.items()}
        try:
            schema = defs.get_schema(node.op_type, self.opset, node.domain)
            return dict(infer_node_outputs(schema, node, types, data, opset_imports=self._opsets()))
        except (InferenceError, ValidationError, defs.SchemaError) as error:
            raise Unsuitable from error

    def _opsets(self) -> List[Any]:
        return [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]

    def attempt(self, kind: Callable[[Graph], None]) -> None:
        """Add a kind of operators to the graph, completely or not at all."""
        nodes, values, weights = len(self.nodes), len(self._values), dict(self.weights)
        try:
            kind(self)
        except Unsuitable:
            del self.nodes[nodes:], self._values[values:]
            self.weights = weights

    def model(self) -> ModelProto:
        """The graph as a model. Its outputs are the blobs that no operator reads, and a few others."""
        read = {name for node in self.nodes for name in _reads(node)}
        made = [one for one in self._values if one not in self.inputs]
        outputs = [one for one in made if one.name not in read or self.chance(0.08)]
        inputs = [one for one in self.inputs if one.name in read]
        graph = helper.make_graph(
            self.nodes,
            "random",
            [helper.make_tensor_value_info(one.name, one.type, [size or None for size in one.shape]) for one in inputs],
            [helper.make_tensor_value_info(one.name, one.type, None) for one in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items() if name in read],
        )
        return helper.make_model(graph, opset_imports=self._opsets(), ir_version=8)


def _value(name: str, type: TypeProto) -> Value:
    tensor = type.tensor_type
    if not tensor.HasField("shape"):
        raise Unsuitable
    sizes = [size.dim_value if size.HasField("dim_value") else size.dim_param for size in tensor.shape.dim]
    if any(isinstance(size, int) and size < 0 for size in sizes):  # of a window that is larger than its picture
        raise Unsuitable
    return Value(name, tensor.elem_type, tuple(sizes))


def _reads(node: NodeProto) -> List[str]:
    """What a node reads, its bodies included."""
    inner = [one for attribute in node.attribute for one in attribute.g.node]
    return [*node.input, *(name for one in inner for name in _reads(one))]


def random_graph(number: int, kinds: Sequence[Callable[[Graph], None]]) -> ModelProto:
    """The graph of this number, always the same for the same kinds."""
    graph = Graph(number)
    graph.input(FLOAT, graph.choose(*SHAPES))
    if graph.chance(0.4):
        same = graph.inputs[0].shape if graph.chance(0.6) else graph.choose(*SHAPES)
        graph.input(graph.choose(FLOAT, FLOAT, INT64, HALF, DOUBLE), same)
    most = graph.integer(3, MOST_NODES)
    for _ in range(MOST_TRIALS):
        graph.attempt(graph.choose(*kinds))
        if len(graph.nodes) >= most:
            break
    return graph.model()
