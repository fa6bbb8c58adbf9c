"""Layers that programs write in Python: ``type: "Python"``, with a module and a class in ``python_param``."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import Any, Iterator, List, Sequence

import numpy as np

from armnet.standins.caffe.blobs import Blob, BlobVec
from exporter.caffe.blob import Blob as Memory
from exporter.caffe.net import title
from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.netdef import Array
from training.caffe.files import PHASES
from training.caffe.layers.layer import Diffs, layer
from training.caffe.layers.layer import Layer as Computed


class Layer:
    """What a program derives its layers from; ``bottom`` and ``top`` are lists of Blobs.

    ``param_str``: what the prototxt says there. ``phase``: caffe.TRAIN or caffe.TEST. ``blobs``: the parameters, which
    ``setup`` adds by ``self.blobs.add_blob(*shape)``.
    """

    param_str = ""
    phase = PHASES["TEST"]
    blobs: BlobVec

    def __init__(self, param: Any = None):
        """param: the layer in the prototxt."""

    def setup(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Called once."""

    def reshape(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Give the tops their shapes."""

    def forward(self, bottom: Sequence[Blob], top: Sequence[Blob]) -> None:
        """Give the tops their data."""

    def backward(self, top: Sequence[Blob], propagate_down: Sequence[bool], bottom: Sequence[Blob]) -> None:
        """Give the bottoms their diff, and add to that of the parameters."""


@layer("Python")
class PythonLayer(Computed):
    """Runs a program's layer. What that raises is an ExportError that names the layer."""

    def setup(self, *bottoms: Array) -> None:
        param = self.param("python_param")
        with self._running("the class"):
            self.own = getattr(import_module(param.module), param.layer)(self.proto)
        self.own.param_str, self.own.blobs = param.param_str, BlobVec()
        self.own.phase = PHASES["TRAIN" if self.training else "TEST"]
        self.bottoms = [Memory(x.shape) for x in bottoms]
        self.tops = [Memory() for _ in self.proto.top]
        with self._running("setup"):
            self._give(bottoms)
            self.own.setup(self._shown(self.bottoms), self._shown(self.tops))
        for blob in self.own.blobs:
            self.add_blob(blob.shape)
            if len(self.blobs) > len(self._given):
                self.blobs[-1].data[...] = blob.data
        self.own.blobs = BlobVec.of(self.blobs)

    def trial(self, *bottoms: Array) -> List[Array]:
        self._reshape(bottoms)
        return [np.zeros(top.shape, np.float32) for top in self.tops]

    def forward(self, *bottoms: Array) -> List[Array]:
        self._reshape(bottoms)
        with self._running("forward"):
            self.own.forward(self._shown(self.bottoms), self._shown(self.tops))
        return [top.data.copy() for top in self.tops]

    def backward(self, *diffs: Array) -> Diffs:
        for top, diff in zip(self.tops, diffs):
            top.diff[...] = diff
        for bottom in self.bottoms:
            bottom.diff[...] = 0
        with self._running("backward"):
            self.own.backward(self._shown(self.tops), list(self.propagate), self._shown(self.bottoms))
        return [bottom.diff.copy() for bottom in self.bottoms]

    def _reshape(self, bottoms: Sequence[Array]) -> None:
        self._give(bottoms)
        with self._running("reshape"):
            self.own.reshape(self._shown(self.bottoms), self._shown(self.tops))

    def _give(self, bottoms: Sequence[Array]) -> None:
        for memory, x in zip(self.bottoms, bottoms):
            memory.reshape(x.shape)
            memory.data[...] = x

    @staticmethod
    def _shown(memories: Sequence[Memory]) -> List[Blob]:
        return [Blob(memory) for memory in memories]

    @contextmanager
    def _running(self, what: str) -> Iterator[None]:
        try:
            yield
        except ArmnetError:
            raise
        except Exception as error:
            raise ExportError(f"{title(self.proto)}: {what} raised {type(error).__name__}: {error}") from error
