"""One Caffe layer as a rule sees it: parameters, bottoms, tops, trained blobs, and the net being built."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from exporter.caffe.weights import TrainedBlob
from exporter.common.builder import NetBuilder
from exporter.common.open_shapes import Dims
from runtime_arm.errors import ExportError, FormatError
from runtime_arm.netdef import Argument, Array, OperatorDef

TRAIN = 0  # of the phases in caffe.proto


class MissingBlobs(ExportError):
    """A layer needs trained blobs and there are none: no caffemodel is given, or it lacks the layer."""


class Layer:
    """What a rule is given. ``bottoms`` and ``tops`` are blob names; ``blobs`` is None if the layer has none."""

    def __init__(
        self,
        proto: Any,
        bottoms: Sequence[str],
        tops: Sequence[str],
        blobs: Optional[Sequence[TrainedBlob]],
        net: NetBuilder,
    ):
        self.type: str = proto.type
        self.name: str = proto.name
        self.bottoms = tuple(bottoms)
        self.tops = tuple(tops)
        self.net = net
        self._proto = proto
        self._blobs = blobs

    # Parameters

    def param(self, name: str) -> Any:
        """A parameter message, such as ``layer.param("relu_param")``; the defaults if it is absent."""
        return getattr(self._proto, name)

    @property
    def training(self) -> bool:
        """Whether the net runs in the phase TRAIN."""
        return bool(self._proto.phase == TRAIN)

    @property
    def in_place(self) -> bool:
        """Whether the first top overwrites the first bottom."""
        return bool(self._proto.top[:1] == self._proto.bottom[:1])

    @property
    def loss_weights(self) -> int:
        """How many loss weights are given."""
        return len(self._proto.loss_weight)

    def has(self, name: str) -> bool:
        """Whether the parameter message is given."""
        return bool(self._proto.HasField(name))

    def require(self, condition: bool, rule: str) -> None:
        """ExportError with the rule unless the condition holds."""
        if not condition:
            raise ExportError(rule)

    def counts(self, bottoms: int = 1, tops: int = 1) -> None:
        """ExportError unless the layer has these numbers of bottoms and tops."""
        for what, names, count in (("bottom", self.bottoms, bottoms), ("top", self.tops, tops)):
            self.require(len(names) == count, f"takes {count} {what}s, got {len(names)}")

    # Shapes

    def dims(self, index: int = 0) -> Optional[Dims]:
        """The shape of a bottom, provided that the inputs have the shapes that the prototxt declares."""
        return self.net.dims(self.bottoms[index])

    def rank(self, index: int = 0) -> Optional[int]:
        """The number of a bottom's dimensions if it is known."""
        dims = self.dims(index)
        return None if dims is None else len(dims)

    def axis(self, axis: int, index: int = 0, extra: int = 0) -> int:
        """The axis of a bottom, counted from the front; ``extra``: how many axes beyond the last are allowed."""
        rank = self.rank(index)
        if rank is None:
            self.require(axis >= 0, f"axis {axis} needs a bottom whose number of dimensions is known")
            return axis
        self.require(
            -rank - extra <= axis < rank + extra,
            f"axis {axis} is out of range for the bottom's shape {self.dims(index)}",
        )
        return axis + rank + extra if axis < 0 else axis

    def require_same_shapes(self) -> None:
        """ExportError if the bottoms are known to differ in shape."""
        known = [dims for dims in map(self.dims, range(len(self.bottoms))) if dims is not None]
        self.require(all(dims == known[0] for dims in known), f"the bottoms must have one shape, they have {known}")

    # Trained blobs

    def require_blobs(self, count: int) -> None:
        """ExportError unless the caffemodel has this number of blobs for the layer."""
        if self._blobs is None:
            raise MissingBlobs(f"needs {count} trained blobs, and there are none: is its caffemodel missing?")
        self.require(len(self._blobs) == count, f"needs {count} blobs, the caffemodel has {len(self._blobs)}")

    def blob_count(self) -> int:
        """The number of trained blobs."""
        return len(self._blobs or ())

    def trained(self, index: int, shape: Optional[Sequence[Optional[int]]] = None) -> Array:
        """The content of a blob as float32 in this shape, in which None matches any size.

        Call ``require_blobs`` first. FormatError if the blob's shape does not fit its values or this shape.
        """
        assert self._blobs is not None
        try:
            found = self._blobs[index].array()
        except FormatError as error:
            raise FormatError(f"blob {index}: {error}") from error
        if shape is None:
            return found
        dims = self._fitted(found.shape, shape)
        if dims is None:
            want = ["any" if n is None else n for n in shape]
            raise FormatError(f"blob {index} has the shape {list(found.shape)}, {want} is needed")
        return found.reshape(dims)

    @staticmethod
    def _fitted(found: Tuple[int, ...], wanted: Sequence[Optional[int]]) -> Optional[Tuple[int, ...]]:
        """The found shape in the wanted number of dimensions; legacy blobs are padded with 1 in front."""
        spare = len(found) - len(wanted)
        if spare < 0 or any(n != 1 for n in found[:spare]):
            return None
        dims = found[spare:]
        return dims if all(w is None or n == w for n, w in zip(dims, wanted)) else None

    def constant(self, stem: str, value: Any) -> str:
        """Add a constant blob, float32 unless it holds integers; its name."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float32, copy=False)
        return self.net.constant(self.fresh(stem), array)

    def weight(self, stem: str, index: int, shape: Optional[Sequence[Optional[int]]] = None) -> str:
        """A trained blob as a constant of the net; its name."""
        return self.constant(stem, self.trained(index, shape))

    def fresh(self, stem: str) -> str:
        """A new blob name made from the layer's."""
        return self.net.fresh(f"{self.name}_{stem}")

    # Operators

    def add(
        self,
        type: str,
        inputs: Optional[Sequence[str]] = None,
        outputs: Optional[Sequence[str]] = None,
        domain: str = "",
        **arguments: Any,
    ) -> None:
        """Add an operator of Caffe2's domain, or another, by default from the bottoms to the tops.

        Arguments that are None are left out.
        """
        given: Dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
        args: List[Argument] = [Argument.of(name, value) for name, value in given.items()]
        self.net.add(
            OperatorDef(
                type,
                tuple(self.bottoms if inputs is None else inputs),
                tuple(self.tops if outputs is None else outputs),
                tuple(args),
                name=self.name,
                domain=domain,
            )
        )

    def caffe(
        self,
        type: str,
        inputs: Optional[Sequence[str]] = None,
        outputs: Optional[Sequence[str]] = None,
        **arguments: Any,
    ) -> None:
        """Add an operator of the domain "caffe"."""
        self.add(type, inputs, outputs, "caffe", **arguments)

    def onnx(
        self,
        type: str,
        inputs: Optional[Sequence[str]] = None,
        outputs: Optional[Sequence[str]] = None,
        **arguments: Any,
    ) -> None:
        """Add an operator of the domain "onnx"."""
        self.add(type, inputs, outputs, "onnx", **arguments)
