"""The blobs that hold the tensors of a TFLite graph.

TFLite's pictures are (N, H, W, C); the runtime's convolutions need (N, C, H, W). So a tensor has up to two forms: one
in the source's order and one with the channels first. A rule reads and writes the form that suits it; the other form is
made by a transposition when it is first asked for. The blob in the source's order has the tensor's name. Of the names
of all that TensorFlow's converter fused into a tensor, which it joins by semicolons, that is the first.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import AbstractSet, Dict, List, Optional, Tuple

import numpy as np

from exporter.common.builder import NetBuilder
from exporter.common.open_shapes import Dims
from exporter.tflite.reader import Graph, Tensor
from exporter.tflite.weights import content_of, quantization_of
from runtime_arm.errors import ExportError
from runtime_arm.netdef import OperatorDef

_SUFFIX, _BETWEEN_NAMES = "_nchw", ";"
_LARGEST_STATE = 1 << 26  # elements, which the file need not contain


def first_dims(dims: Dims) -> Dims:
    """(N, ..., C) as (N, C, ...)."""
    return (dims[0], dims[-1], *dims[1:-1])


def last_dims(dims: Dims) -> Dims:
    """(N, C, ...) as (N, ..., C)."""
    return (dims[0], *dims[2:], dims[1])


def _initial(tensor: Tensor) -> int:
    """What the elements of a variable are before the first run: of int8 the zero point, else 0."""
    quantization = quantization_of(tensor) if tensor.type == "INT8" else None
    return 0 if quantization is None else int(quantization.zero_point[0])


class Blobs:
    """The blobs of one graph. names: the exact names of some tensors' blobs in the source's order, by tensor index."""

    def __init__(self, graph: Graph, net: NetBuilder, names: Optional[Dict[int, str]] = None):
        self.graph = graph
        self.net = net
        self._names = names or {}
        self._forms: Dict[Tuple[int, bool], str] = {}
        self._states: Dict[int, str] = {}
        self.resources: Dict[int, str] = {}  # the variable that a handle refers to, by tensor index

    @cached_property
    def beside_integers(self) -> AbstractSet[int]:
        """The tensors that DEQUANTIZE writes or QUANTIZE reads, by index."""
        ops = self.graph.operations
        written = (index for op in ops if op.type == "DEQUANTIZE" for index in op.outputs)
        return {*written, *(index for op in ops if op.type == "QUANTIZE" for index in op.inputs if index is not None)}

    def bind(self, tensor: Tensor, blob: str, channels_first: bool = False) -> None:
        """Make a blob a form of a tensor."""
        if (tensor.index, False) in self._forms or (tensor.index, True) in self._forms:
            raise ExportError(f"tensor {tensor.name!r} is written twice")
        name = self._names.get(tensor.index)
        if name is not None and not channels_first and name != blob:
            self.net.alias(name, blob)
            blob = name
        self._forms[tensor.index, channels_first] = blob

    def write(self, tensor: Tensor, channels_first: bool = False) -> str:
        """The blob that an operator is about to write."""
        name = self._name(tensor, channels_first)
        if (tensor.index, False) in self._forms or (tensor.index, True) in self._forms:
            raise ExportError(f"tensor {tensor.name!r} is written twice")
        self._forms[tensor.index, channels_first] = name
        if tensor.is_complex:
            self.net.hint(name, np.dtype(np.float32), (*tensor.dims, 2) if tensor.has_rank else None)
        elif tensor.has_rank and (len(tensor.dims) > 1 or not channels_first):  # a damaged file says anything
            self.net.hint(name, tensor.dtype, first_dims(tensor.dims) if channels_first else tensor.dims)
        return name

    def rewrite(self, tensor: Tensor, blob: str) -> None:
        """Assign a blob's content to a variable, for the rest of this run and for the next."""
        state = self._states.get(tensor.index)
        if state is None:
            raise ExportError(f"tensor {tensor.name!r} must be a variable")
        self.net.keep(state, blob)
        self._forms[tensor.index, False] = blob

    def read(self, tensor: Tensor, channels_first: bool = False) -> str:
        """The blob of a tensor in a layout, made from the other layout if necessary."""
        key = (tensor.index, channels_first)
        if key not in self._forms:
            if (tensor.index, not channels_first) not in self._forms:
                self._load(tensor)
            if key not in self._forms:
                self._forms[key] = self._reordered(tensor, channels_first)
        return self.net.resolve(self._forms[key])

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether the content is known."""
        blobs = [self._forms[tensor.index, first] for first in (False, True) if (tensor.index, first) in self._forms]
        return any(self.net.value(blob) is not None for blob in blobs) or (not blobs and self._is_stored(tensor))

    def is_channels_first(self, tensor: Tensor) -> bool:
        """Whether the tensor has only the form with the channels first."""
        return (tensor.index, True) in self._forms and (tensor.index, False) not in self._forms

    def is_written(self, tensor: Tensor) -> bool:
        """Whether the tensor has a blob: an operator or input wrote it, or it was read."""
        return (tensor.index, True) in self._forms or (tensor.index, False) in self._forms

    def dims(self, tensor: Tensor) -> Optional[Dims]:
        """The shape in the source's order as far as it is known."""
        if (tensor.index, False) in self._forms:
            dims = self.net.dims(self._forms[tensor.index, False])
            return dims[:-1] if dims is not None and tensor.is_complex else dims
        if (tensor.index, True) in self._forms:
            dims = self.net.dims(self._forms[tensor.index, True])
            return None if dims is None else last_dims(dims)
        return tensor.dims

    def forms(self) -> List[Tuple[Tensor, str, bool]]:
        """Every tensor with its blob and whether the blob has the channels first, for comparisons blob by blob.

        States are left out: after a run they no longer hold what was read.
        """
        forms = [(index, self.net.resolve(blob), first) for (index, first), blob in self._forms.items()]
        return [(self.graph.tensors[index], blob, first) for index, blob, first in forms if not self.net.is_kept(blob)]

    @staticmethod
    def _is_stored(tensor: Tensor) -> bool:
        """Whether the file holds the content; empty tensors, and sparse ones that are all zeros, have none to hold."""
        is_empty = tensor.sparsity is not None or 0 in tensor.dims
        return tensor.content is not None or (is_empty and not tensor.is_variable)

    def _load(self, tensor: Tensor) -> None:
        if tensor.is_variable and tensor.dtype is not None and None not in tensor.dims:
            sizes = [n for n in tensor.dims if n is not None]
            if math.prod(sizes) > _LARGEST_STATE:
                raise ExportError(f"the variable {tensor.name!r} of shape {tensor.dims} is too large")
            state = self.net.state(self._name(tensor, False), np.full(sizes, _initial(tensor), tensor.dtype))
            self._forms[tensor.index, False] = self._states[tensor.index] = state
            return
        if not self._is_stored(tensor):
            raise ExportError(f"tensor {tensor.name!r} is read before it is written")
        self._forms[tensor.index, False] = self.net.constant(self._name(tensor, False), content_of(tensor))

    def _name(self, tensor: Tensor, channels_first: bool) -> str:
        if not channels_first and tensor.index in self._names:
            return self._names[tensor.index]
        return self.net.fresh(tensor.name.split(_BETWEEN_NAMES)[0] + _SUFFIX * channels_first)

    def _reordered(self, tensor: Tensor, channels_first: bool) -> str:
        source = self._forms[tensor.index, not channels_first]
        dims, value = self.net.dims(source), self.net.value(source)
        if dims is not None and len(dims) < 3:
            raise ExportError(f"tensor {tensor.name!r} must be a picture, its shape is {dims}")
        name = self._name(tensor, channels_first)
        if value is not None:
            moved = np.moveaxis(value, -1, 1) if channels_first else np.moveaxis(value, 1, -1)
            return self.net.constant(name, np.ascontiguousarray(moved))
        spatial = () if dims is None else dims[1:-1] if channels_first else dims[2:]
        if dims is not None and set(spatial) == {1}:
            known = dims[-1] if channels_first else dims[1]
            channels = -1 if known is None else known  # a rest cannot be told where the batch is empty
            shape = [0, channels, *spatial] if channels_first else [0, *spatial, channels]
            outputs = [name, self.net.fresh(f"{name}_old_shape")]
            self.net.add(OperatorDef.of("Reshape", [source], outputs, shape=shape))
        else:
            self.net.add(OperatorDef.of("NHWC2NCHW" if channels_first else "NCHW2NHWC", [source], [name]))
        if dims is not None:
            self.net.hint(name, self.net.dtype(source), first_dims(dims) if channels_first else last_dims(dims))
        return name
