"""Caffe's net as pycaffe shows it: blobs and parameters with values and gradients, a forward and a backward pass."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from exporter.caffe.blob import Blob
from exporter.caffe.memories import shares_memory
from exporter.caffe.net import is_included, title
from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ArmnetError, ExportError, FeedError, UsageError, there_are
from runtime_arm.netdef import Array
from training.caffe.files import PHASES, Content, Text, caffemodel_of, input_shapes, named, net_of, weights_of
from training.caffe.fillers import filled
from training.caffe.hdf5 import parameters_in
from training.caffe.layers import is_loss, make_layer
from training.caffe.layers.layer import Layer
from training.caffe.splits import with_splits

Key = Tuple[str, int]  # a blob's name, and how often layers have written it before


class Parameter(NamedTuple):
    """A blob that a solver changes, with the factors of its rate and of its decay."""

    blob: Blob
    rate: float
    decay: float


class _Owner(NamedTuple):
    """The first blob of a name that layers share, and what all of them say about it."""

    blob: Blob
    spec: Any


AUTOMATIC = "(automatic)"  # the name of a loss's top that a text does not state; it is no output


def _with_tops(layers: List[Any]) -> List[Any]:
    """The layers; losses that state no top are given one."""
    bare = [proto for proto in layers if is_loss(proto.type) and not proto.top]
    for number, proto in enumerate(bare):
        proto.top.append(f"{AUTOMATIC}{number or ''}")
    return layers


class Net:
    """``Net(net_text, caffemodel=None, phase="TEST")``: the contents of both files, or their paths.

    ``blobs[name]`` and ``params[layer][i]`` are Blobs with ``data`` and ``diff``. ``inputs`` are the tops of input and
    data layers, which take any shape; ``outputs`` the blobs that no layer reads, in the order of their names, as in
    Caffe. FormatError, ExportError or UsageError, naming the layer, for texts, layers and shapes that do not fit.
    """

    def __init__(self, net_text: Text, caffemodel: Optional[Content] = None, phase: str = "TEST", seed: int = 0):
        if phase not in PHASES:
            raise UsageError(f"phase must be TRAIN or TEST, got {phase!r}")
        self._proto = net_of(net_text)
        self._proto.state.phase = PHASES[phase]
        self._random = np.random.RandomState(seed if seed >= 0 else None)
        self.name = self._proto.name
        self.blobs: Dict[str, Blob] = OrderedDict()
        self.params: Dict[str, List[Blob]] = OrderedDict()
        self.inputs: List[str] = []
        self.sources: List[Any] = []  # the layers whose tops these are
        self.protos: List[Any] = []  # of all layers, these among them, in their order
        self.layers: List[Tuple[Any, Layer]] = []
        self._owners: Dict[str, _Owner] = {}  # of parameters that layers share, by name
        given = {} if caffemodel is None else weights_of(caffemodel)
        included = [one for one in self._proto.layer if is_included(one, self._proto.state)]
        for proto in with_splits(_with_tops(included)):
            self._add(proto, phase == "TRAIN", given.get(proto.name, ()))
        self._wiring = list(self._wired())
        self.outputs = self._unread()
        self.reshape()
        self.blobs = OrderedDict((name, self.blobs[name]) for proto in self.protos for name in proto.top)

    def _add(self, proto: Any, training: bool, given: Sequence[Blob]) -> None:
        if len(proto.propagate_down) not in (0, len(proto.bottom)):
            there = f"{len(proto.propagate_down)} for {len(proto.bottom)} bottoms"
            raise ExportError(f"{title(proto)}: needs one propagate_down for each bottom, or none; there are {there}")
        self.protos.append(proto)
        shapes = input_shapes(proto)
        if shapes is None:
            own = proto.phase == PHASES["TRAIN"] if proto.HasField("phase") else training
            self.layers.append((proto, make_layer(proto, own, self._random, given)))
            return
        self.sources.append(proto)
        if proto.type == "DummyData":
            shapes = _dummy_shapes(proto)
        for name, shape in zip(proto.top, [*shapes, *[(1,)] * (len(proto.top) - len(shapes))]):
            self.blobs[name] = Blob(shape)
            self.inputs.append(name)
            if proto.type == "DummyData" and proto.dummy_data_param.data_filler:
                fillers = proto.dummy_data_param.data_filler
                filler = fillers[min(list(proto.top).index(name), len(fillers) - 1)]
                self.blobs[name].data[...] = filled(filler, self.blobs[name].shape, self._random)

    def _wired(self) -> Iterator[Tuple[List[Key], List[Key]]]:
        """The bottoms and tops of each layer, each by name and version."""
        versions = dict.fromkeys(self.inputs, 0)
        for proto, _ in self.layers:
            missing = [name for name in proto.bottom if name not in versions]
            if missing:
                raise ExportError(f"{title(proto)}: no layer before it gives its bottom {missing[0]!r}")
            bottoms = [(name, versions[name]) for name in proto.bottom]
            for name in proto.top:
                if name in versions and name not in proto.bottom:
                    raise ExportError(f"{title(proto)}: another layer gives its top {name!r}")
                versions[name] = versions.get(name, -1) + 1
            yield bottoms, [(name, versions[name]) for name in proto.top]

    def _unread(self) -> List[str]:
        available: Dict[Key, None] = {(name, 0): None for name in self.inputs}
        for bottoms, tops in self._wiring:
            for key in bottoms:
                available.pop(key, None)
            available.update(dict.fromkeys(tops))
        stated = [key for key in available if not key[0].startswith(AUTOMATIC)]
        return sorted(name for name, version in stated if version > 0 or name not in self.inputs)

    # Passes

    def forward(self, **inputs: Any) -> Dict[str, Array]:
        """Run the layers on the inputs, or on what their blobs hold; the outputs by name."""
        for name, value in inputs.items():
            if name not in self.inputs:
                raise FeedError(f"no input {name!r}; the net takes {', '.join(self.inputs) or 'none'}")
            _assign(self.blobs[name], np.asarray(value, np.float32))
        self.forward_between()
        return {name: self.blobs[name].data.copy() for name in self.outputs}

    def forward_between(self, start: Optional[str] = None, end: Optional[str] = None) -> None:
        """Run the layers from ``start`` to ``end``, both among them, on what the blobs hold; by default all."""
        for proto, layer in self.layers[self._part(start, end)]:
            self._run(proto, layer)

    def _part(self, first: Optional[str], last: Optional[str]) -> slice:
        names = [proto.name for proto, _ in self.layers]
        for name in (first, last):
            if name is not None and name not in names:
                raise UsageError(f"no layer {name!r}; there are {there_are(name, names)}")
        begin = 0 if first is None else names.index(first)
        end = len(names) if last is None else len(names) - names[::-1].index(last)
        if first is not None and last is not None and begin >= end:
            raise UsageError(f"layer {first!r} comes after layer {last!r}")
        return slice(begin, end)

    def reshape(self) -> None:
        """Give every blob the shape that follows from those of the inputs, as ``forward`` does, too. Values stay where
        the memory of a blob suffices."""
        for proto, layer in self.layers:
            bottoms = [np.zeros(self.blobs[name].shape, np.float32) for name in proto.bottom]
            for name, top in self._tops(proto, layer, bottoms, trial=True):
                self.blobs[name].reshape(top.shape)
                if shares_memory(proto):
                    self._share_values(proto, name, top.shape)
            self._weigh(proto, layer)

    def remember(self, inputs: Mapping[str, Array]) -> None:
        """Let the layers hold what a pass on these inputs leaves in them for a backward pass. Blobs keep their values,
        but those of layers that share memory become one with what these read."""
        values = dict(inputs)
        for proto, layer in self.layers:
            for name, top in self._tops(proto, layer, [values[name] for name in proto.bottom]):
                values[name] = top
                if shares_memory(proto):
                    self._share_values(proto, name, top.shape)

    def _run(self, proto: Any, layer: Layer) -> None:
        bottoms = [self.blobs[name].data.copy() for name in proto.bottom]
        for name, top in self._tops(proto, layer, bottoms):
            if shares_memory(proto):
                self._share_values(proto, name, top.shape)
            else:
                _assign(self.blobs[name], top)
        self._weigh(proto, layer)

    def _share_values(self, proto: Any, name: str, shape: Sequence[int]) -> None:
        """Let a top have the memory of the layer's bottom."""
        self.blobs[name].share_data(self.blobs[proto.bottom[0]])
        self.blobs[name].reshape(shape)

    def _tops(
        self, proto: Any, layer: Layer, bottoms: Sequence[Array], trial: bool = False
    ) -> Iterator[Tuple[str, Array]]:
        """What a layer gives, by name; on trial, to learn shapes, it and its parameters stay as they are."""
        try:
            if not layer.is_set_up:
                layer.prepare(bottoms)
                self._share(proto, layer)
            with np.errstate(all="ignore"):
                tops = (layer.trial if trial else layer.forward)(*bottoms)
        except (ArmnetError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, ExportError):
                raise
            shapes = ", ".join(str(list(x.shape)) for x in bottoms)
            raise ExportError(f"{title(proto)}: does not fit its bottoms of shapes {shapes}: {error}") from error
        if len(tops) != len(proto.top):
            raise ExportError(f"{title(proto)}: gives {len(tops)} tops, not {len(proto.top)}")
        for name in proto.top:
            self.blobs.setdefault(name, Blob())
        return zip(proto.top, tops)

    def _weigh(self, proto: Any, layer: Layer) -> None:
        """Set the gradients of losses to their weights."""
        for name, weight in zip(proto.top, layer.loss_weights(len(proto.top))):
            if weight:
                self.blobs[name].diff[...] = weight

    def _share(self, proto: Any, layer: Layer) -> None:
        """Let parameters of one name be one blob, and list them."""
        if len(proto.param) > len(layer.blobs):
            there = f"{len(proto.param)} param for {len(layer.blobs)} parameters"
            raise ExportError(f"{title(proto)}: there are {there}")
        for index, param in enumerate(proto.param):
            if param.name in self._owners:
                layer.blobs[index] = self._shared(proto, param, layer.blobs[index])
            elif param.name:
                spec = type(param)()
                spec.CopyFrom(param)
                self._owners[param.name] = _Owner(layer.blobs[index], spec)
        if layer.blobs:
            self.params[proto.name] = layer.blobs

    def _shared(self, proto: Any, param: Any, own: Blob) -> Blob:
        """The blob of a name that a layer before has given: one of both shapes if the layer permits that.

        A factor that one of the layers states counts for all of them.
        """
        owner = self._owners[param.name]
        permissive = param.share_mode == type(param).PERMISSIVE
        if owner.blob.count() != own.count() if permissive else owner.blob.shape != own.shape:
            raise ExportError(f"{title(proto)}: shares {param.name!r}, which has another shape")
        for factor in ("lr_mult", "decay_mult"):
            if param.HasField(factor):
                stated = getattr(param, factor)
                if owner.spec.HasField(factor) and getattr(owner.spec, factor) != stated:
                    told = f"{factor} {stated:g}, another layer says {getattr(owner.spec, factor):g}"
                    raise ExportError(f"{title(proto)}: shares {param.name!r} with {told}")
                setattr(owner.spec, factor, stated)
        if owner.blob.shape == own.shape:
            return owner.blob
        shape = own.shape
        own.share_data(owner.blob)
        own.share_diff(owner.blob)
        own.reshape(shape)
        return own

    def backward(self, **top_diffs: Any) -> Dict[str, Array]:
        """Give every blob and parameter its gradient; those of the inputs by name.

        top_diffs: the gradients of outputs; a loss has its loss weight. Gradients of parameters are added to what their
        ``diff`` holds.
        """
        for name, value in top_diffs.items():
            if name not in self.outputs:
                raise FeedError(f"no output {name!r} for a gradient; got {named(top_diffs)}, there are {self.outputs}")
            self.blobs[name].diff[...] = np.asarray(value, np.float32).reshape(self.blobs[name].shape)
        self.backward_between()
        return {name: self.blobs[name].diff.copy() for name in self.inputs}

    def backward_between(self, start: Optional[str] = None, end: Optional[str] = None) -> None:
        """The gradients of what the layers from ``start`` back to ``end`` read, both among them, by default of all; the
        tops of ``start`` have theirs."""
        found: Dict[Key, Array] = {}
        steps = list(zip(self.layers, self._wiring))[self._part(end, start)]
        outputs = set(self.outputs) if start is None else {name for name, _ in steps[-1][1][1]}
        needed = self._needs(outputs)
        for (proto, layer), (bottoms, tops) in reversed(steps):
            weights = layer.loss_weights(len(tops))
            for key, weight in zip(tops, weights):
                if key[0] in outputs or weight:
                    found.setdefault(key, self.blobs[key[0]].diff.copy())
            self._step_back(proto, layer, bottoms, tops, found, needed)
        made = {key for _, (_, tops) in steps for key in tops}
        read = {key for _, (bottoms, _) in steps for key in bottoms if key not in made}
        for key in [*read, *((name, 0) for name in self.inputs if end is None)]:
            if key in found or key[0] in self.inputs:
                diff, blob = found.get(key, np.float32(0)), self.blobs[key[0]]
                if np.shape(diff) not in ((), blob.shape):
                    raise ExportError(
                        f"blob {key[0]!r}: a layer in place gives it another shape, so it has no gradient"
                    )
                blob.diff[...] = diff

    def _step_back(
        self,
        proto: Any,
        layer: Layer,
        bottoms: Sequence[Key],
        tops: Sequence[Key],
        found: Dict[Key, Array],
        needed: Dict[int, Tuple[bool, ...]],
    ) -> None:
        flags = needed.get(id(layer), ())
        diffs = [found[key] if key in found else np.zeros(self.blobs[key[0]].shape, np.float32) for key in tops]
        for key, diff in zip(tops, diffs):
            self.blobs[key[0]].diff[...] = diff.reshape(self.blobs[key[0]].shape)
        if not flags:
            return
        layer.propagate = flags[1:]
        frozen = [] if self._proto.force_backward else [i for i in range(len(layer.blobs)) if _rate(proto, i) == 0]
        before = [layer.blobs[index].diff.copy() for index in frozen]
        with np.errstate(all="ignore"):
            results = layer.backward(*diffs)
        for index, diff in zip(frozen, before):
            layer.blobs[index].diff[...] = diff
        for key, result, wanted in zip(bottoms, results, flags[1:]):
            if result is not None and wanted:
                found[key] = found.get(key, np.float32(0)) + np.asarray(result, np.float32)

    def _needs(self, outputs: Set[str]) -> Dict[int, Tuple[bool, ...]]:
        """For each layer that runs backwards from these: True, and whether each of its bottoms needs a gradient."""
        force = self._proto.force_backward
        wanted: Set[Key] = {(name, 0) for name in self.inputs} if force else set()
        needs: Dict[int, Tuple[bool, ...]] = {}
        for (proto, layer), (bottoms, tops) in zip(self.layers, self._wiring):
            flags = tuple(key in wanted for key in bottoms)
            learns = any(_rate(proto, index) != 0 for index in range(len(layer.blobs)))
            if force or learns or any(flags):
                wanted.update(tops)
                needs[id(layer)] = (True, *((force or flag) for flag in flags))
        if force:
            return needs
        counting: Set[Key] = set()
        for (_, layer), (bottoms, tops) in reversed(list(zip(self.layers, self._wiring))):
            if any(layer.loss_weights(len(tops))) or counting.intersection(tops) or self._given(tops, outputs):
                counting.update(bottoms)
            else:
                needs.pop(id(layer), None)
        return needs

    def _given(self, tops: Sequence[Key], outputs: Set[str]) -> bool:
        """Whether an output among these has a gradient that is not zero, as one that a user gave."""
        return any(name in outputs and bool(self.blobs[name].diff.any()) for name, _ in tops)

    # Parameters

    def parameters(self) -> List[Parameter]:
        """Every parameter once, in order."""
        seen: Set[str] = set()
        found: List[Parameter] = []
        for proto, layer in self.layers:
            for index, blob in enumerate(layer.blobs):
                spec = proto.param[index] if index < len(proto.param) else message_class("ParamSpec")()
                if spec.name in seen:
                    continue
                if spec.name:
                    seen.add(spec.name)
                    spec = self._owners[spec.name].spec
                found.append(Parameter(blob, spec.lr_mult, spec.decay_mult))
        return found

    def save(self, with_gradients: bool = False, hdf5: bool = False) -> bytes:
        """The caffemodel; with hdf5 the HDF5 file of the same."""
        if hdf5:
            blobs = {id(proto): layer.blobs for proto, layer in self.layers}
            return parameters_in([(proto.name, blobs.get(id(proto), [])) for proto in self.protos], with_gradients)
        return caffemodel_of(self.name, [(proto, layer.blobs) for proto, layer in self.layers], with_gradients)

    def share_with(self, other: Net) -> None:
        """Let the parameters of layers with the same names be those of another net."""
        for name, blobs in other.params.items():
            for number, (own, theirs) in enumerate(zip(self.params.get(name, ()), blobs)):
                if own.shape != theirs.shape:
                    raise UsageError(f"layer {name!r}: a blob has the shape {theirs.shape}, {own.shape} is needed")
                self.params[name][number] = theirs

    def copy_from(self, caffemodel: Content) -> None:
        """Take the parameters of layers with the same names. FormatError if a shape does not fit."""
        for name, blobs in weights_of(caffemodel).items():
            for own, other in zip(self.params.get(name, ()), blobs):
                if own.data.size != other.data.size:
                    raise UsageError(f"layer {name!r}: a blob has {other.data.size} values, {own.data.size} are needed")
                own.data[...] = other.data.reshape(own.shape)


def _rate(proto: Any, index: int) -> float:
    return float(proto.param[index].lr_mult) if index < len(proto.param) else 1.0


def _assign(blob: Blob, value: Array) -> None:
    if blob.shape != value.shape:
        blob.reshape(value.shape)
    blob.data[...] = value


def _dummy_shapes(proto: Any) -> List[Tuple[int, ...]]:
    param = proto.dummy_data_param
    shapes = [tuple(shape.dim) for shape in param.shape]
    if not shapes:
        shapes = list(zip(param.num, param.channels, param.height, param.width))
    return shapes * len(proto.top) if len(shapes) == 1 else shapes
