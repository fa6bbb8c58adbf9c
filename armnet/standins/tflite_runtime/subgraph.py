"""A graph of a .tflite file with its tensors: shapes, memory, and the predictor that runs it."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from exporter.tflite.export import input_names, output_names
from exporter.tflite.reader import Graph, Tensor
from exporter.tflite.weights import content_of
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array

Shape = Tuple[int, ...]
NULL = "Tensor data is null. Run allocate_tensors() first"


class Subgraph:
    """open_predictor: makes the graph's predictor, when its tensors are first allocated. kept: the blob of each tensor
    that is kept besides the outputs, and whether it has its channels first."""

    def __init__(
        self,
        graph: Graph,
        open_predictor: Callable[[], Tuple[Predictor, Dict[int, Tuple[str, bool]]]],
    ):
        self.graph = graph
        self._open_predictor = open_predictor
        self._predictor: Optional[Predictor] = None
        self._kept: Dict[int, Tuple[str, bool]] = {}
        self._inputs = dict(zip(graph.inputs, input_names(graph)))
        self._outputs = dict(zip(graph.outputs, output_names(graph)))
        self._shapes: Dict[int, Shape] = {}  # those that differ from the file's
        self._memory: Dict[int, Array] = {}  # inputs, outputs and kept tensors; each array owns its memory
        self._unheld: Dict[int, int] = {}  # the references to each while the program holds no view
        self._ready = False

    def tensor(self, index: int) -> Tensor:
        """A tensor of the graph. ValueError if there is none."""
        if not 0 <= index < len(self.graph.tensors):
            raise ValueError(f"Invalid tensor index {index}: there are {len(self.graph.tensors)} tensors")
        return self.graph.tensors[index]

    def shape(self, index: int) -> Shape:
        """The present shape of a tensor; 1 stands for sizes that nobody has given yet."""
        tensor = self.tensor(index)
        return self._shapes.get(index, tuple(1 if dim is None else dim for dim in tensor.dims))

    def resize(self, index: int, shape: Sequence[int], strict: bool) -> None:
        """Give an input another shape; the tensors then have to be allocated again. strict: only sizes that the file
        leaves open may change. ValueError or RuntimeError if that cannot be."""
        tensor = self.tensor(index)
        new = tuple(int(size) for size in shape)
        if index not in self._inputs:
            raise ValueError(f"tensor {index} ({tensor.name}) is no input, so it cannot be resized")
        if any(size < 0 for size in new):
            raise RuntimeError(f"tensor {index} ({tensor.name}) cannot have the shape {new}")
        if strict:
            self._check_open(tensor, new)
        if new != self.shape(index):
            self._shapes[index] = new
            self._ready = False

    @staticmethod
    def _check_open(tensor: Tensor, new: Shape) -> None:
        if len(new) != len(tensor.dims):
            raise RuntimeError(
                f"tensor {tensor.index} has {len(tensor.dims)} dimensions, not {len(new)}; strict is set"
            )
        for at, (dim, size) in enumerate(zip(tensor.dims, new)):
            if dim not in (None, size):
                raise RuntimeError(
                    f"dimension {at} of tensor {tensor.index} is {dim} and cannot become {size}: "
                    "strict lets only sizes change that are -1 in shape_signature"
                )

    def allocate(self) -> None:
        """Give every input and output its memory. RuntimeError if armnet cannot run the graph with these shapes."""
        if self._ready:
            return
        try:
            if self._predictor is None:
                self._predictor, self._kept = self._open_predictor()
            shapes = {name: self.shape(index) for index, name in self._inputs.items()}
            known = self._predictor.plan(shapes).env
        except ArmnetError as error:
            raise RuntimeError(str(error)) from error
        for index, name in self._outputs.items():
            if name in known:
                self._shapes[index] = tuple(known[name].spec.shape)
        self._memory, self._unheld = {}, {}
        for index in [*self._inputs, *self._outputs]:
            dtype = self.tensor(index).dtype
            assert dtype is not None  # the exporter has refused others
            self._place(index, np.zeros(self.shape(index), dtype))
        self._ready = True

    def set(self, index: int, value: Any) -> None:
        """Copy a value into an input. ValueError if its dtype or shape is not the input's."""
        tensor = self.tensor(index)
        if index not in self._memory or not self._ready:
            if index in self._inputs or not self._ready:
                raise ValueError("Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first")
            raise ValueError(f"Cannot set tensor: tensor {index} ({tensor.name}) is no input of the graph")
        target, array = self._memory[index], np.asarray(value)
        called, problem = f"input {index}, name: {tensor.name}", "Cannot set tensor: Dimension mismatch. Got"
        if array.dtype != target.dtype:
            raise ValueError(
                f"Cannot set tensor: Got value of type {array.dtype} but expected {target.dtype} for {called}"
            )
        if array.ndim != target.ndim:
            raise ValueError(f"{problem} {array.ndim} but expected {target.ndim} for {called}")
        for at, (size, expected) in enumerate(zip(array.shape, target.shape)):
            if size != expected:
                raise ValueError(f"{problem} {size} but expected {expected} for dimension {at} of {called}")
        target[...] = array

    def get(self, index: int) -> Any:
        """A copy of a tensor, a scalar of one without dimensions. ValueError if it has no content."""
        return self.view(index).copy()[()]

    def view(self, index: int) -> Array:
        """A tensor's memory: writable for inputs and outputs, not for constants. ValueError if it has no content."""
        tensor = self.tensor(index)
        if index in self._memory and self._ready:
            view: Array = self._memory[index].view()
            return view
        if tensor.content is None:
            raise ValueError(NULL)
        try:
            if (
                tensor.sparsity is not None and tensor.dtype is not None
            ):  # what the file stores, as TensorFlow Lite has it
                return np.frombuffer(tensor.content, tensor.dtype.newbyteorder("<"))
            return content_of(tensor)
        except ArmnetError as error:
            raise ValueError(str(error)) from error

    def is_held(self) -> bool:
        """Whether the program holds an array that is a view of a tensor's memory."""
        return any(_references(self._memory[index]) > unheld for index, unheld in self._unheld.items())

    def invoke(self) -> None:
        """Run the graph. RuntimeError if its tensors are not allocated, or if an operator fails."""
        if self._predictor is None or not self._ready:
            raise RuntimeError("Invoke called on model that is not ready: run allocate_tensors() first")
        feeds = {name: self._memory[index] for index, name in self._inputs.items()}
        kept = {index: form for index, form in self._kept.items() if index not in self._outputs}
        try:
            results = self._predictor.run(feeds, keep=[blob for blob, _ in kept.values()])
        except ArmnetError as error:
            raise RuntimeError(str(error)) from error
        del feeds
        for index, name in self._outputs.items():
            self._store(index, results[name])
        for index, (blob, channels_first) in kept.items():
            value = results[blob]
            self._store(index, np.moveaxis(value, 1, -1) if channels_first else value)

    def reset_variables(self) -> None:
        """Give the graph's variables their first content."""
        if self._predictor is not None:
            self._predictor.reset()

    def indices(self) -> List[int]:
        """The tensors of the graph."""
        return list(range(len(self.graph.tensors)))

    def _store(self, index: int, value: Array) -> None:
        """Copy a result to where the program finds it; one of another shape than before gets other memory."""
        memory = self._memory.get(index)
        if memory is not None and memory.shape == value.shape:
            memory[...] = value
            return
        self._shapes[index] = tuple(value.shape)
        self._place(index, np.array(value, self.tensor(index).dtype, order="C"))

    def _place(self, index: int, array: Array) -> None:
        self._memory[index] = array
        del array  # what is counted below is the dictionary's own reference
        self._unheld[index] = _references(self._memory[index])


def _references(array: Array) -> int:
    """The references to an array; 0 where Python does not count them."""
    return sys.getrefcount(array) if hasattr(sys, "getrefcount") else 0
