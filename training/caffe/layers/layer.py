"""What every layer is: parameters, a forward pass, and a backward pass that adds to the gradients of the parameters."""

from __future__ import annotations

from copy import copy
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Type

import numpy as np

from exporter.caffe.blob import Blob
from exporter.caffe.net import title
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from training.caffe.fillers import filled

Diffs = Sequence[Optional[Array]]  # of the bottoms; None where a layer gives none
Shape = Tuple[int, ...]


class Layer:
    """A layer of a net. ``type`` names it in a prototxt.

    A subclass says in ``setup`` which parameters it has, and computes in ``forward`` and ``backward``; what backward
    needs, forward keeps in attributes. Bottoms and tops are float32 arrays. ``loss`` says that the layer is one, whose
    first top counts with weight 1 unless the prototxt says otherwise.
    """

    loss = False

    def __init__(self, proto: Any, training: bool, random: np.random.RandomState, given: Sequence[Blob] = ()):
        self.proto = proto
        self.training = training
        self.random = random
        self.blobs: List[Blob] = []
        self._given = list(given)
        self.is_set_up = False
        self.propagate: Sequence[bool] = ()  # whether the gradient of each bottom is asked for

    def param(self, name: str) -> Any:
        """The layer's parameters, such as ``convolution_param``."""
        return getattr(self.proto, name)

    def require(self, condition: bool, rule: str) -> None:
        """ExportError, naming the layer, unless the condition holds."""
        if not condition:
            raise ExportError(f"{title(self.proto)}: {rule}")

    def prepare(self, bottoms: Sequence[Array]) -> None:
        """Make the parameters, once the shapes of the bottoms are known."""
        if not self.is_set_up:
            self.setup(*bottoms)
            self.is_set_up = True

    def add_blob(self, shape: Sequence[int], filler: Any = None) -> None:
        """A parameter of this shape: the one in the caffemodel, else a filled one; zeros without a filler."""
        number, blob = len(self.blobs), Blob(shape)
        if number < len(self._given):
            values = self._given[number].data
            fits = values.size == blob.data.size
            self.require(fits, f"blob {number} has {values.size} values, {blob.data.size} are needed")
            blob.data[...] = values.reshape(blob.shape)
        elif filler is not None:
            blob.data[...] = filled(filler, blob.shape, self.random)
        self.blobs.append(blob)

    def axis(self, axis: int, ndim: int, what: str = "axis") -> int:
        """An axis counted from the front."""
        self.require(-ndim <= axis < ndim, f"{what} {axis} is out of range for {ndim} dimensions")
        return axis % ndim

    def setup(self, *bottoms: Any, **_: Any) -> None:
        """Add the parameters. Most layers have none."""

    def forward(self, *bottoms: Any, **_: Any) -> List[Array]:
        """The tops."""
        raise NotImplementedError

    def trial(self, *bottoms: Any, **_: Any) -> List[Array]:
        """Arrays of the shapes that the tops have for these bottoms; the layer and its parameters stay as they are. A
        layer that takes its time gives the shapes without computing."""
        before = [blob.data.copy() for blob in self.blobs]
        tops = copy(self).forward(*bottoms)
        for blob, values in zip(self.blobs, before):
            blob.data[...] = values
        return tops

    def backward(self, *diffs: Any, **_: Any) -> Diffs:
        """The gradients of the bottoms, from those of the tops; those of the parameters are added to their diffs.

        ExportError where Caffe has no backward pass.
        """
        raise ExportError(f"{title(self.proto)}: it has no backward pass")

    def loss_weights(self, tops: int) -> List[float]:
        """How much each top counts in the objective."""
        stated = list(self.proto.loss_weight)
        self.require(len(stated) in (0, tops), f"has {tops} tops and {len(stated)} loss weights")
        return stated or [1.0 if self.loss and index == 0 else 0.0 for index in range(tops)]


LAYERS: Dict[str, Type[Layer]] = {}


def layer(*types: str) -> Callable[[Type[Layer]], Type[Layer]]:
    """Class decorator: the layer's types in a prototxt."""

    def register(made: Type[Layer]) -> Type[Layer]:
        LAYERS.update(dict.fromkeys(types, made))
        return made

    return register
