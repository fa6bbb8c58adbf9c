"""Blobs as pycaffe shows them."""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence

from armnet.standins.caffe.planned import Passes
from armnet.standins.failures import raised_as
from armnet.standins.notes import Standin
from exporter.caffe.blob import Blob as Memory
from runtime_arm.netdef import Array


class Blob(Standin):
    """``net.blobs["data"]``: ``data``, ``diff``, ``reshape``."""

    __slots__ = ("_memory", "_name", "_passes")
    _package = "caffe"

    def __init__(self, memory: Memory, passes: Optional[Passes] = None, name: Optional[str] = None):
        """passes: those of the net that the blob belongs to. name: that of a blob, None for a parameter."""
        self._memory, self._passes, self._name = memory, passes, name

    @property
    def data(self) -> Array:
        """The values, to be read and written."""
        return self._memory.data if self._passes is None else self._passes.values(self._memory, self._name)

    @property
    def diff(self) -> Array:
        """The gradients, to be read and written."""
        return self._memory.diff

    @property
    def shape(self) -> Sequence[int]:
        return self._memory.shape

    @property
    def count(self) -> int:
        """The number of elements."""
        return self._memory.count()

    def reshape(self, *shape: int) -> None:
        """Take another shape; ``net.reshape()`` or a run gives the blobs after it theirs."""
        with raised_as(ValueError):
            if self._passes is None:
                self._memory.reshape(*shape)
            else:
                self._passes.reshape(self._memory, self._name, shape)

    num = property(lambda self: self._legacy(0))
    channels = property(lambda self: self._legacy(1))
    height = property(lambda self: self._legacy(2))
    width = property(lambda self: self._legacy(3))

    def _legacy(self, axis: int) -> int:
        with raised_as(RuntimeError):
            return self._memory.legacy_shape(axis)


class BlobVec(List[Blob]):
    """The parameters of a layer: ``net.params["conv1"]``."""

    @classmethod
    def of(cls, memories: Iterable[Memory], passes: Optional[Passes] = None) -> BlobVec:
        """Blobs that show these."""
        return cls(Blob(memory, passes) for memory in memories)

    def add_blob(self, *shape: int) -> None:
        """Another parameter, of a layer that is being set up."""
        self.append(Blob(Memory(shape)))
