"""Translates Caffe nets of every dialect into pairs: the part of the prototxt and caffemodel that inference needs."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from exporter.caffe.layer import Layer
from exporter.caffe.memories import Memories, overwritten_at_last
from exporter.caffe.net import DATA_LAYERS, INPUT_LAYERS, inference_layers, outputs_of, title
from exporter.caffe.prototxt import read_prototxt
from exporter.caffe.rules import find_rule
from exporter.caffe.upgrade import upgraded
from exporter.caffe.weights import TrainedBlob, read_weights
from exporter.common.builder import NetBuilder, refuse_foreign
from exporter.common.options import DEFAULTS, ExportOptions
from exporter.common.source import naming, origin
from runtime_arm.errors import ArmnetError, ExportError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

NO_SUCH_LAYER = "armnet has no such layer type; `armnet support` lists every layer that a net lacks"
Dims = Tuple[Optional[int], ...]
OnProblem = Callable[[Any, ArmnetError], None]


class CaffeNet(NamedTuple):
    """The part of a prototxt that inference needs: the layers, in order, and the outputs, which no layer reads."""

    name: str
    layers: Sequence[Any]
    outputs: Sequence[str]


def from_caffe(prototxt: AnyPath, caffemodel: Optional[AnyPath] = None, *, options: ExportOptions = DEFAULTS) -> Pair:
    """The pair that computes what Caffe does in the phase TEST, or in the phase that the net's ``state`` names.

    Batch and spatial dimensions of the inputs are open, whatever the prototxt declares. Errors name the file, the layer
    and the blob.
    """
    blobs = read_weights(caffemodel) if caffemodel is not None else {}
    net = read_net(prototxt, options)
    with naming(prototxt):
        return pair_of(prototxt, net, *translated(net, blobs), options)


def read_net(prototxt: AnyPath, options: ExportOptions) -> CaffeNet:
    """The part of a prototxt's net that is translated. Errors name the file."""
    source = read_prototxt(prototxt)
    with naming(prototxt):
        net = upgraded(source)
        layers = inference_layers(net, options.keep_losses)
        outputs = outputs_of(layers)
        if not outputs:
            raise ExportError("the net computes nothing")
        return CaffeNet(net.name, layers, outputs)


def pair_of(
    prototxt: AnyPath, net: CaffeNet, builder: NetBuilder, inputs: Sequence[TensorInfo], options: ExportOptions
) -> Pair:
    """The pair of what ``translated`` returns."""
    meta = {"source": origin(prototxt, map_file(prototxt)), **options.over(_default_meta(net.layers))}
    infos = [TensorInfo(name, None, "float32") for name in net.outputs]
    pair = builder.pair(net.name, inputs, infos, meta, unpacked=options.caffe2_compatible)
    if options.caffe2_compatible:
        refuse_foreign(pair.predict_net)
    return pair


def translated(
    net: CaffeNet, blobs: Mapping[str, Sequence[TrainedBlob]], on_problem: Optional[OnProblem] = None
) -> Tuple[NetBuilder, List[TensorInfo]]:
    """A builder with the operators of the layers, and the net's inputs.

    on_problem is called for each layer that cannot be translated; without it the first one raises an ExportError.
    """
    layers, outputs = net.layers, net.outputs
    builder = NetBuilder(outputs=outputs)
    builder.reserve([name for layer in layers for name in layer.top])
    read = {name for layer in layers for name in layer.bottom}
    inputs: List[TensorInfo] = []
    blobs_of = _Blobs(builder, net)
    for proto in layers:
        try:
            if proto.type in INPUT_LAYERS:
                inputs += [
                    blobs_of.add_input(name, dims)
                    for name, dims in zip(proto.top, _declared(proto))
                    if proto.type not in DATA_LAYERS or name in read
                ]
            else:
                _translate(blobs_of.enter(proto, blobs.get(proto.name)))
                blobs_of.leave(proto)
        except ArmnetError as error:
            if on_problem is None:
                raise ExportError(f"{title(proto)}: {error}") from error
            on_problem(proto, error)
            blobs_of.skip(proto)
    blobs_of.finish()
    return builder, inputs


def _translate(layer: Layer) -> None:
    rule = find_rule(layer.type)
    if rule is None:
        raise ExportError(NO_SUCH_LAYER)
    rule(layer)


def _declared(proto: Any) -> List[Optional[Dims]]:
    """The declared shape of each top of an input layer; None if none is declared."""
    count = len(proto.top)
    if proto.type == "Input":
        shapes: List[Optional[Dims]] = [tuple(shape.dim) for shape in proto.input_param.shape]
        if len(shapes) not in (0, 1, count):
            raise ExportError(f"has {count} tops and {len(shapes)} shapes")
        if any(n is not None and n < 0 for shape in shapes for n in shape or ()):
            raise ExportError(f"declares a negative dimension: {shapes}")
        return shapes * count if len(shapes) == 1 else shapes or [None] * count
    return [None] * count


def _default_meta(layers: Sequence[Any]) -> Dict[str, Any]:
    """By default, pictures are resized to the size that the prototxt declares for the first input."""
    shapes = [dims for proto in layers if proto.type == "Input" for dims in _declared(proto)][:1]
    if not shapes or shapes[0] is None or len(shapes[0]) != 4:
        return {}
    return {"preprocessing": {"resize": list(shapes[0][2:])}}


class _Blobs:
    """The blob of the net behind each Caffe name. A layer that works in place makes a new blob.

    The last blob of a Caffe name has that name, so that results are found under Caffe's names. Names that share memory
    in Caffe are all overwritten by a layer in place on one of them: what reads another one later reads the new values,
    and so do results.
    """

    def __init__(self, builder: NetBuilder, net: CaffeNet):
        self._builder = builder
        self._current: Dict[str, str] = {}
        self._inputs: List[str] = []
        layers = net.layers
        self._writes = Counter(name for layer in layers for name in layer.top if layer.type not in INPUT_LAYERS)
        self._late = overwritten_at_last(layers).intersection(net.outputs)
        self._writes.update(self._late)  # by ``finish``
        self._made: Dict[str, str] = {}
        self._memories = Memories()
        self._overwritten: Dict[str, Tuple[str, Any]] = {}  # by a layer in place, on which name of the same memory

    def add_input(self, name: str, dims: Optional[Dims]) -> TensorInfo:
        """Declare an input of the net."""
        if name in self._current:
            raise ExportError(f"top {name!r} is already written by another layer")
        self._current[name] = name
        self._inputs.append(name)
        self._builder.input(name, np.dtype(np.float32), dims)
        return TensorInfo(name, None if dims is None else _freed(dims), "float32")

    def enter(self, proto: Any, blobs: Optional[Sequence[TrainedBlob]]) -> Layer:
        """The layer with the blobs that it reads and writes."""
        missing = [name for name in proto.bottom if name not in self._current]
        if missing:
            raise ExportError(f"bottom {missing[0]!r} is not written by any earlier layer")
        if len(set(proto.top)) < len(proto.top):
            raise ExportError(f"writes a top twice: {list(proto.top)}")
        bottoms = [self._read(proto, name) for name in proto.bottom]
        self._made = {}
        for index, name in enumerate(proto.top):
            in_place = index < len(proto.bottom) and proto.bottom[index] == name
            if name in self._current and not in_place:
                raise ExportError(f"top {name!r} is already written by another layer")
            self._writes[name] -= 1
            final = self._writes[name] == 0 and name not in self._inputs
            self._made[name] = name if final else self._builder.fresh(f"{name}_{proto.name}")
        return Layer(proto, bottoms, [self._made[name] for name in proto.top], blobs, self._builder)

    def _read(self, proto: Any, name: str) -> str:
        """The blob that holds what a layer reads under a name."""
        if name in self._overwritten:
            self._renew(proto, name, self._builder.fresh(f"{name}_{proto.name}"))
        return self._current[name]

    def _renew(self, proto: Any, name: str, blob: str) -> None:
        """Let a blob hold what the name has held since a layer in place overwrote its memory."""
        by, _ = self._overwritten.pop(name)
        Layer(proto, [self._current[by], self._current[name]], [blob], None, self._builder).add("ResizeLike")
        self._current[name] = blob

    def skip(self, proto: Any) -> None:
        """Forget everything about the layer's tops."""
        for name in proto.top:
            self._current[name] = name
            self._builder.forget(name)

    def leave(self, proto: Any) -> None:
        """Record the layer's tops as written. A copy gives an input's name to a top that overwrites the input."""
        for name, blob in self._made.items():
            if name in self._inputs and self._writes[name] == 0:
                Layer(proto, [blob], [name], None, self._builder).add("Copy")
                blob = name
            self._current[name] = blob
            self._overwritten.update(dict.fromkeys(self._memories.write(proto, name), (name, proto)))

    def finish(self) -> None:
        """Let results hold what layers in place wrote into their memory under another name."""
        for name in [name for name in self._overwritten if name in self._late]:
            self._renew(self._overwritten[name][1], name, name)


def _freed(dims: Dims) -> Dims:
    """A declared shape with open batch and spatial dimensions; for other ranks, such as (T, N, C), all are open."""
    return tuple(n if axis == 1 and len(dims) in (2, 4, 5) else None for axis, n in enumerate(dims))
