"""Net and Blob as pycaffe shows them."""

from __future__ import annotations

import os
from collections import OrderedDict
from itertools import zip_longest
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

import armnet.standins.caffe.layer  # noqa: F401  # layers of the type Python
from armnet.standins.caffe import machine
from armnet.standins.caffe.blobs import Blob, BlobVec
from armnet.standins.caffe.planned import Passes
from armnet.standins.failures import raised_as
from armnet.standins.notes import Standin
from runtime_arm.errors import UsageError
from runtime_arm.files import AnyPath, write_file
from runtime_arm.netdef import Array
from training.caffe.data.feeding import Feed, TableFeed, fed
from training.caffe.files import net_of
from training.caffe.net import Net as Computed

_PHASES = {0: "TRAIN", 1: "TEST"}


class LayerOfNet(Standin):
    """``net.layers[i]``: ``type`` and ``blobs``."""

    __slots__ = ("blobs", "type")
    _package = "caffe"

    def __init__(self, type: str, blobs: BlobVec):
        self.type, self.blobs = type, blobs


class Net(Standin):
    """``Net("deploy.prototxt", caffe.TEST, weights="w.caffemodel")``, or ``Net("deploy.prototxt", "w.caffemodel",
    caffe.TEST)``. RuntimeError with armnet's reason for files and layers that it cannot run."""

    _package = "caffe"

    def __init__(
        self,
        network_file: AnyPath,
        *given: Any,
        phase: Optional[int] = None,
        level: int = 0,
        stages: Optional[Iterable[str]] = None,
        weights: Optional[AnyPath] = None,
    ):
        if given and isinstance(given[0], (str, os.PathLike)):
            weights, given = given[0], given[1:]
        found: Sequence[Any] = (*given, *(phase, level, stages, weights)[len(given) :])
        phase, level, stages, weights = found
        if phase not in _PHASES:
            raise TypeError(f"caffe.Net(..., phase) takes caffe.TRAIN or caffe.TEST, got {phase!r}")
        with raised_as(RuntimeError):
            proto = net_of(Path(network_file))
            proto.state.level = level
            proto.state.stage.extend(stages or ())
            proto, feeds = fed(proto, _PHASES[phase], Path(network_file).parent, {}, machine.seed, by_hand=True)
            net = Computed(proto, weights, _PHASES[phase], machine.seed)
            self._show(net, feeds, Passes(net, phase == 1 and not proto.force_backward))

    @classmethod
    def of(cls, net: Computed, feeds: List[Feed]) -> Net:
        """A solver's net."""
        shown = cls.__new__(cls)
        shown._show(net, feeds, Passes(net, possible=False))
        return shown

    def _show(self, net: Computed, feeds: List[Feed], passes: Passes) -> None:
        self._net, self._feeds, self._fed, self._passes = net, feeds, 0, passes
        self.blobs: Dict[str, Blob] = OrderedDict(
            (name, Blob(memory, passes, name)) for name, memory in net.blobs.items()
        )
        given = {top for feed in feeds for top in feed.proto.top}
        self.inputs = [top for one in net.sources if one.type == "Input" for top in one.top if top not in given]
        read = {name for proto, _ in net.layers for name in proto.bottom}
        self.outputs = sorted([*net.outputs, *(name for name in net.inputs if name not in read)])
        self._layer_names = [proto.name for proto in net.protos]
        self._sources = {proto.name for proto in net.sources}
        self.top_names = OrderedDict((proto.name, list(proto.top)) for proto in net.protos)
        self.bottom_names = OrderedDict((proto.name, list(proto.bottom)) for proto in net.protos)

    # What is there

    @property
    def params(self) -> Dict[str, BlobVec]:
        """The parameters of each layer that has some."""
        return OrderedDict((name, BlobVec.of(blobs, self._passes)) for name, blobs in self._net.params.items())

    @property
    def layers(self) -> List[LayerOfNet]:
        """The layers, data layers among them."""
        blobs = {id(proto): BlobVec.of(layer.blobs, self._passes) for proto, layer in self._net.layers}
        return [LayerOfNet(proto.type, blobs.get(id(proto), BlobVec())) for proto in self._net.protos]

    @property
    def layer_dict(self) -> Dict[str, LayerOfNet]:
        return OrderedDict(zip(self._layer_names, self.layers))

    @property
    def _blob_names(self) -> List[str]:
        return list(self.blobs)

    # Passes

    def forward(
        self,
        blobs: Optional[Iterable[str]] = None,
        start: Optional[str] = None,
        end: Optional[str] = None,
        **kwargs: Any,
    ) -> Dict[str, Array]:
        """Run the layers from ``start`` to ``end``; what the outputs, or the tops of ``end``, hold, and ``blobs``."""
        if kwargs:
            self._assign(kwargs, self.inputs, "data")
        with raised_as(RuntimeError):
            if start is None or start in self._sources:
                self._feed()
                start = None
            if start is end is None:
                self._passes.forward(blobs or ())
            elif end not in self._sources:
                self._passes.go_back_to_layers()
                self._net.forward_between(start, end)
        wanted = self.outputs if end is None else self.top_names[end]
        return {name: self.blobs[name].data for name in [*wanted, *(blobs or ())]}

    def backward(
        self,
        diffs: Optional[Iterable[str]] = None,
        start: Optional[str] = None,
        end: Optional[str] = None,
        **kwargs: Any,
    ) -> Dict[str, Array]:
        """The gradients, from the layer ``start`` back to ``end``; those of the inputs, or of what ``end`` reads, and
        of ``diffs``. Those of parameters are added to what their ``diff`` holds."""
        if kwargs:
            self._assign(kwargs, self.outputs, "diff")
        with raised_as(RuntimeError):
            if start not in self._sources:
                self._passes.go_back_to_layers()
                self._net.backward_between(start, None if end in self._sources else end)
        wanted = self.inputs if end is None else self.bottom_names[end]
        return {name: self.blobs[name].diff for name in [*wanted, *(diffs or ())]}

    def forward_all(self, blobs: Optional[Iterable[str]] = None, **kwargs: Any) -> Dict[str, Array]:
        """Run inputs with any number of rows, a batch at a time; the outputs of all rows."""
        passes = [_copied(self.forward(blobs, **batch)) for batch in self._batches(kwargs)]
        return _joined(passes, kwargs)

    def forward_backward_all(
        self, blobs: Optional[Iterable[str]] = None, diffs: Optional[Iterable[str]] = None, **kwargs: Any
    ) -> Tuple[Dict[str, Array], Dict[str, Array]]:
        """The same, and a backward pass after each forward pass: the outputs and the gradients of all rows.

        kwargs: inputs, and gradients of outputs. What is not given is taken from the blobs as they are.
        """
        inputs = {name: rows for name, rows in kwargs.items() if name in self.inputs}
        outputs = {name: rows for name, rows in kwargs.items() if name not in inputs}
        values, gradients = [], []
        nothing: Dict[str, Any] = {}
        for batch, top_diffs in zip_longest(self._batches(inputs), self._batches(outputs), fillvalue=nothing):
            values.append(_copied(self.forward(blobs, **batch)))
            gradients.append(_copied(self.backward(diffs, **top_diffs)))
        return _joined(values, kwargs), _joined(gradients, kwargs)

    def _batches(self, given: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        """The rows in batches of the size of the net's; the last one is filled up with zeros."""
        if not given:
            return
        arrays = {name: np.asarray(values, np.float32) for name, values in given.items()}
        count, size = len(next(iter(arrays.values()))), self.blobs[next(iter(arrays))].shape[0]
        for at in range(0, count, size):
            parts = {name: array[at : at + size] for name, array in arrays.items()}
            yield {
                name: np.concatenate([part, np.zeros((size - len(part), *part.shape[1:]), np.float32)])
                for name, part in parts.items()
            }

    def reshape(self) -> None:
        """Give every blob the shape that follows from those of the inputs."""
        with raised_as(RuntimeError):
            self._passes.reshape_all()

    def clear_param_diffs(self) -> None:
        """Set the gradients of the parameters to zero."""
        for blobs in self._net.params.values():
            for blob in blobs:
                blob.diff[...] = 0

    def _assign(self, given: Dict[str, Any], names: List[str], what: str) -> None:
        if set(given) != set(names):
            raise Exception(f"the net needs {', '.join(names) or 'nothing'}; {', '.join(given)} are given")
        for name, value in given.items():
            target = getattr(self.blobs[name], what)
            if len(value) != len(target):
                raise Exception(f"{name!r} has {len(value)} rows, the net's batches have {len(target)}")
            target[...] = value

    def _feed(self) -> None:
        """Put the next batch into the blobs of data layers."""
        for feed in self._feeds:
            for name, rows in feed.batches(self._fed).items():
                self.blobs[name].reshape(*rows.shape)
                self.blobs[name].data[...] = rows
        self._fed += 1

    # Data and files

    def set_input_arrays(self, data: Any, labels: Any) -> None:
        """What a MemoryData layer gives, batch by batch."""
        with raised_as(RuntimeError):
            layer = next((proto for proto in self._net.sources if proto.type == "MemoryData"), None)
            if layer is None:
                raise UsageError("the net's data come from no MemoryData layer")
            table = {name: np.asarray(rows, np.float32) for name, rows in zip(layer.top, (data, labels))}
            batch = int(layer.memory_data_param.batch_size)
            if len(data) % batch:
                raise UsageError(f"{len(data)} rows are no multiple of the batch size, {batch}")
            self._feeds[:] = [feed for feed in self._feeds if feed.proto.name != layer.name]
            self._feeds.append(TableFeed(layer, batch, table, 0, False, "set_input_arrays"))

    def copy_from(self, weights: AnyPath) -> None:
        """Take the parameters of layers with the same names from a caffemodel."""
        with raised_as(RuntimeError):
            self._passes.go_back_to_layers(for_good=False)
            self._net.copy_from(weights)

    def share_with(self, other: Net) -> None:
        """Let parameters of layers with the same names be those of another net."""
        with raised_as(RuntimeError):
            for net in (self, other):
                net._passes.go_back_to_layers()
            self._net.share_with(other._net)

    def save(self, filename: AnyPath) -> None:
        """Write the caffemodel."""
        with raised_as(RuntimeError):
            write_file(filename, [self._net.save()])

    def save_hdf5(self, filename: AnyPath) -> None:
        """Write the parameters as HDF5."""
        with raised_as(RuntimeError):
            write_file(filename, [self._net.save(hdf5=True)])

    def load_hdf5(self, filename: AnyPath) -> None:
        """Take the parameters of layers with the same names from an HDF5 file."""
        self.copy_from(filename)


def _copied(arrays: Dict[str, Array]) -> Dict[str, Array]:
    return {name: array.copy() for name, array in arrays.items()}


def _joined(passes: List[Dict[str, Array]], given: Dict[str, Any]) -> Dict[str, Array]:
    """The rows of all passes, as many as are given."""
    count = len(next(iter(given.values()))) if given else 0
    names = list(passes[0]) if passes else []
    return {name: np.concatenate([np.atleast_1d(one[name]) for one in passes])[:count] for name in names}
