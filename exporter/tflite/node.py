"""One TFLite operator as the rules see it: blobs in either layout, options by the schema's names, constants, scales."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from exporter.common.builder import NetBuilder
from exporter.common.open_shapes import Dims
from exporter.tflite.blobs import Blobs
from exporter.tflite.ranks import note_ranks
from exporter.tflite.reader import Operation, Quantization, Tensor
from exporter.tflite.weights import quantization_of
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Argument, Array, NetDef, OperatorDef
from runtime_arm.registry.schema import find

_ACTIVATIONS: Dict[int, Tuple[str, Dict[str, Any]]] = {
    1: ("Relu", {}),
    2: ("Clip", {"min": -1.0, "max": 1.0}),
    3: ("Clip", {"min": 0.0, "max": 6.0}),
    4: ("Tanh", {}),
}
# The range of real numbers after an activation; integer kernels saturate at its ends.
ACTIVATION_RANGES: Dict[int, Tuple[Optional[float], Optional[float]]] = {
    0: (None, None),
    1: (0.0, None),
    2: (-1.0, 1.0),
    3: (0.0, 6.0),
}
_QUANTISED = ("INT8", "UINT8", "INT16", "INT4")


def domain_for(type: str, dtype: np.dtype[Any]) -> str:
    """Caffe2's domain if its operator of this type accepts the data type, else ONNX's."""
    schema = find(OperatorDef.of(type, [], []))
    return "" if schema is not None and (not schema.dtypes or dtype.name in schema.dtypes) else "onnx"


class Variables:
    """The model's resource variables by name: the current blob of each, and its state if it is initialised."""

    def __init__(self) -> None:
        self.current: Dict[str, str] = {}
        self.states: Dict[str, str] = {}
        self.once = False  # whether the graph being translated runs once, before everything else


class Subnets(Protocol):
    """How a node reaches the other graphs of the model; see ``exporter.tflite.translator``."""

    variables: Variables

    def inline(self, graph: int, inputs: Sequence[str], net: NetBuilder) -> List[str]:
        """Translate a graph in place, on these inputs; the blobs of its outputs."""
        ...

    def branch(self, graph: int, inputs: Sequence[str], net: NetBuilder) -> NetDef:
        """A graph as a sub-net that reads these blobs of the net around it."""
        ...


class Node:
    """An operator of a graph. Layouts: the source's own order, or ``channels_first``: (N, H, W, C) as (N, C, H, W).

    ``Blobs`` keeps the two forms of a tensor and makes a missing one when it is asked for.
    """

    def __init__(self, operation: Operation, blobs: Blobs, subnets: Subnets):
        self.type = operation.type
        self.operation = operation
        self.net: NetBuilder = blobs.net
        self.subnets = subnets
        self._blobs = blobs
        tensors = blobs.graph.tensors
        self._inputs = [None if index is None else tensors[index] for index in operation.inputs]
        self._outputs = [tensors[index] for index in operation.outputs]
        self._quantization = {
            tensor.index: quantization_of(tensor) for tensor in [*self._inputs, *self._outputs] if tensor is not None
        }

    # Options

    def option(self, name: str, default: Any = 0) -> Any:
        """A numeric option by the schema's name; ``default`` if the operator has no options at all."""
        options = self.operation.options
        if options is None:
            return default
        if not options.knows(name):
            raise ExportError(f"has {options.kind}, which say nothing of {name!r}")
        return options.number(name)

    def option_integers(self, name: str, dtype: str = "i4") -> Optional[List[int]]:
        """An option that is a vector of integers; None if the operator has no options at all."""
        options = self.operation.options
        if options is None:
            return None
        if not options.knows(name):
            raise ExportError(f"has {options.kind}, which say nothing of {name!r}")
        return options.integers(name, dtype)

    def option_floats(self, name: str) -> List[float]:
        """An option that is a vector of floats."""
        options = self.operation.options
        if options is None or not options.knows(name):
            raise ExportError(f"has no options that say {name!r}")
        return [float(value) for value in options.vector(name, "f4")]

    def option_text(self, name: str) -> str:
        """An option that is a string."""
        options = self.operation.options
        if options is None or not options.knows(name):
            raise ExportError(f"has no options that say {name!r}")
        return options.text(name)

    # Tensors

    @property
    def input_count(self) -> int:
        return len(self._inputs)

    @property
    def output_count(self) -> int:
        return len(self._outputs)

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self._inputs) and self._inputs[index] is not None

    def tensor(self, index: int) -> Tensor:
        """A required input as the file describes it."""
        tensor = self._inputs[index] if index < len(self._inputs) else None
        if tensor is None:
            raise ExportError(f"input {index} is required")
        return tensor

    def result(self, index: int = 0) -> Tensor:
        """An output as the file describes it."""
        if index >= len(self._outputs):
            raise ExportError(f"output {index} is required")
        return self._outputs[index]

    def input(self, index: int, channels_first: bool = False) -> str:
        """The blob of a required input."""
        return self._blobs.read(self.tensor(index), channels_first)

    def inputs(self, channels_first: bool = False) -> List[str]:
        """The blobs of all inputs. ExportError if one is left out."""
        return [self.input(index, channels_first) for index in range(self.input_count)]

    def output(self, index: int = 0, channels_first: bool = False) -> str:
        """The blob that an output is to be written to."""
        return self._blobs.write(self.result(index), channels_first)

    def ranked(self, rank: int) -> None:
        """Give the first output, once written, a rank if nothing more is known of its shape."""
        blob = self._blobs.read(self.result())
        if self.net.dims(blob) is None:
            result = self.result()
            self.net.hint(blob, result.dtype, (None,) * (rank + result.is_complex))

    def alias(self, index: int, blob: str, channels_first: bool = False) -> None:
        """Make an output another name of a blob."""
        self._blobs.bind(self.result(index), blob, channels_first)

    def update(self, index: int, blob: str) -> None:
        """Assign a blob's content to an input that is a variable, for the rest of this run and for the next."""
        self._blobs.rewrite(self.tensor(index), blob)

    def refer(self, variable: str) -> None:
        """Make the first output a handle of that variable."""
        self._blobs.resources[self.result().index] = variable

    def referred(self, index: int) -> str:
        """The variable that an input is a handle of."""
        tensor = self.tensor(index)
        if tensor.index not in self._blobs.resources:
            raise ExportError(f"tensor {tensor.name!r} is not a handle of a variable in this graph")
        return self._blobs.resources[tensor.index]

    def value(self, index: int) -> Optional[Array]:
        """The content of an input, in the source's order, if it is given and constant."""
        if not self.has(index) or not self._blobs.is_constant(self.tensor(index)):
            return None
        return self.net.value(self.input(index))

    def constant_value(self, index: int, what: str) -> Array:
        """The content of an input that must be constant."""
        value = self.value(index)
        if value is None:
            raise ExportError(f"{what} ({self.tensor(index).name!r}) must be constant")
        return value

    def constant_integers(self, index: int) -> Optional[List[int]]:
        """The content of a constant integer input, flat; None if it is left out or not constant."""
        value = self.value(index)
        if value is None:
            return None
        if value.dtype.kind not in "iu":
            raise ExportError(f"input {index} ({self.tensor(index).name!r}) must be integers")
        return [int(v) for v in value.reshape(-1)]

    def dims(self, index: int) -> Optional[Dims]:
        """The input's shape in the source's order as far as it is known."""
        return self._blobs.dims(self.tensor(index)) if self.has(index) else None

    def known_dims(self, index: int, rank: Optional[int] = None, least: int = 0) -> List[int]:
        """The input's complete shape. ExportError unless it is known and has ``rank`` (or ``least``) dimensions."""
        dims = self.dims(index)
        if dims is not None and (len(dims) < least or rank not in (None, len(dims))):
            count = f"{least} or more" if rank is None else str(rank)
            raise ExportError(
                f"input {index} ({self.tensor(index).name!r}) must have {count} dimensions, its shape is {dims}"
            )
        if dims is None or None in dims:
            raise ExportError(f"the shape of input {index} ({self.tensor(index).name!r}) must be known")
        return [n for n in dims if n is not None]

    def known_sizes(self, index: int, count: int) -> List[int]:
        """The ``count`` spatial dimensions of a picture. ExportError unless they are known."""
        dims = self.dims(index)
        sizes = [] if dims is None else list(dims[1:-1])
        if len(sizes) != count or None in sizes:
            raise ExportError(
                f"input {index} ({self.tensor(index).name!r}) must be a picture of a known size, its shape is {dims}"
            )
        return [n for n in sizes if n is not None]

    def rank(self, index: int) -> Optional[int]:
        """The number of the input's dimensions if it is known."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def known_rank(self, index: int) -> int:
        """The number of the input's dimensions. ExportError if it is unknown."""
        rank = self.rank(index)
        if rank is None:
            raise ExportError(f"the rank of input {index} ({self.tensor(index).name!r}) must be known")
        return rank

    def dtype(self, index: int) -> np.dtype[Any]:
        """The input's data type."""
        return _dtype(self.tensor(index))

    def result_dtype(self, index: int = 0) -> np.dtype[Any]:
        """The output's data type as the file declares it."""
        return _dtype(self.result(index))

    # Quantisation

    @property
    def is_quantised(self) -> bool:
        """Whether the operator works on quantised tensors: an input or output other than a constant has a scale."""
        variable = [t for t in self._inputs if t is not None and not self._blobs.is_constant(t)] + self._outputs
        return any(t.type in _QUANTISED and self._quantization[t.index] is not None for t in variable)

    @property
    def meets_integers(self) -> bool:
        """Whether input 0 was dequantised right before, or output 0 is quantised right after."""
        return not self._blobs.beside_integers.isdisjoint((self.tensor(0).index, self.result().index))

    @property
    def is_complex(self) -> bool:
        """Whether the operator reads or writes complex numbers."""
        return any(t is not None and t.is_complex for t in [*self._inputs, *self._outputs])

    def quantization(self, index: int) -> Optional[Quantization]:
        """Scales and zero points of an input; None if it has none."""
        return self._quantization[self.tensor(index).index]

    def result_quantization(self, index: int = 0) -> Optional[Quantization]:
        """Scales and zero points of an output; None if it has none."""
        return self._quantization[self.result(index).index]

    def scale(self, index: int) -> Tuple[float, int]:
        """Scale and zero point of an input that has one of each."""
        return _per_tensor(self.quantization(index), self.tensor(index))

    def result_scale(self, index: int = 0) -> Tuple[float, int]:
        """Scale and zero point of an output that has one of each."""
        return _per_tensor(self.result_quantization(index), self.result(index))

    def intermediate_scale(self, index: int) -> Tuple[float, int]:
        """Scale and zero point of an intermediate tensor that has one of each."""
        places = self.operation.intermediates
        if index >= len(places):
            raise ExportError(f"intermediate tensor {index} is required, there are {len(places)}")
        tensor = self._blobs.graph.tensors[places[index]]
        return _per_tensor(quantization_of(tensor), tensor)

    # Layouts

    def is_channels_first(self, index: int) -> bool:
        """Whether the input exists only with its channels first."""
        return self.has(index) and self._blobs.is_channels_first(self.tensor(index))

    def elementwise(self, count: Optional[int] = None) -> Tuple[bool, List[str]]:
        """The inputs of a broadcasting operator in the layout that needs fewest transpositions; True: channels first.

        ExportError unless there are ``count`` inputs, if that is given.
        """
        if count is not None and self.input_count != count:
            raise ExportError(f"takes {count} inputs, got {self.input_count}")
        indices = range(self.input_count)
        first = any(self.is_channels_first(i) for i in indices) and all(self._can_be_first(i) for i in indices)
        return first, [self._broadcast_first(i) if first else self.input(i) for i in indices]

    def _rank_of_result(self) -> int:
        return max(len(self.dims(i) or ()) for i in range(self.input_count))

    def _can_be_first(self, index: int) -> bool:
        dims = self.dims(index)
        if dims is None:
            return False
        return len(dims) == self._rank_of_result() or self.value(index) is not None or dims in ((), (1,))

    def _broadcast_first(self, index: int) -> str:
        rank, dims = self._rank_of_result(), self.dims(index)
        value = self.value(index)
        if dims is not None and len(dims) == rank:
            return self.input(index, channels_first=True)
        if value is None or value.size == 1:
            return self.input(index)
        whole = value.reshape((1,) * (rank - value.ndim) + value.shape)
        return self.constant(f"{self.tensor(index).name}_nchw", np.ascontiguousarray(np.moveaxis(whole, -1, 1)))

    def axis(self, axis: int, channels_first: bool, rank: int) -> int:
        """The position in the layout of an axis in the source's order, which may count from the end."""
        if not -rank <= axis < rank:
            raise ExportError(f"axis {axis} is out of range for {rank} dimensions")
        axis %= rank
        if not channels_first or axis == 0:
            return axis
        return 1 if axis == rank - 1 else axis + 1

    # Operators

    def add(
        self, type: str, inputs: Sequence[str], outputs: Sequence[str], *, domain: str = "", **arguments: Any
    ) -> None:
        """Append an operator. Arguments that are None and empty inputs at the end are left out."""
        names = list(inputs)
        while names and not names[-1]:
            names.pop()
        args = tuple(Argument.of(name, value) for name, value in arguments.items() if value is not None)
        op = OperatorDef(type, tuple(names), tuple(outputs), args, domain=domain)
        self.net.add(op)
        note_ranks(self.net, op)

    def constant(self, stem: str, value: Any) -> str:
        """Add a constant blob; its name."""
        return self.net.constant(self.net.fresh(stem), value)

    def between(self, stem: str) -> str:
        """The name of a new blob between two operators of this node."""
        return self.net.fresh(f"{self.result().name}_{stem}")

    @contextmanager
    def activated(self, channels_first: bool = False, option: str = "fused_activation_function") -> Iterator[str]:
        """The blob for the first output before its fused activation, which is added when the block ends."""
        number = self.option(option)
        output = self.output(0, channels_first)
        if number == 0:
            yield output
            return
        if number not in _ACTIVATIONS:
            raise ExportError(f"the fused activation {number} is not supported")
        raw = self.between("raw")
        yield raw
        dtype = _dtype(self.result())
        if dtype.kind == "f" or number not in ACTIVATION_RANGES:
            type, arguments = _ACTIVATIONS[number]
            self.add(type, [raw], [output], **arguments)
            return
        bounds = zip(("least", "most"), ACTIVATION_RANGES[number])
        given = ["" if bound is None else self.constant(stem, np.array(bound, dtype)) for stem, bound in bounds]
        self.add("Clip", [raw, *given], [output], domain="onnx")


def _dtype(tensor: Tensor) -> np.dtype[Any]:
    if tensor.dtype is None:
        raise ExportError(f"tensor {tensor.name!r} has the type {tensor.type}, which is not supported")
    return tensor.dtype


def require_positive(quantization: Quantization, tensor: Tensor) -> None:
    """ExportError, naming the tensor, unless all scales are positive."""
    impossible = quantization.scale[quantization.scale <= 0]
    if impossible.size:
        raise ExportError(
            f"the quantization of tensor {tensor.name!r} does not fit: scales must be positive numbers, "
            f"one is {impossible[0]}"
        )


def _per_tensor(quantization: Optional[Quantization], tensor: Tensor) -> Tuple[float, int]:
    if quantization is None or quantization.per_channel:
        raise ExportError(f"tensor {tensor.name!r} must have one scale and one zero point")
    require_positive(quantization, tensor)
    return float(quantization.scale[0]), int(quantization.zero_point[0])
