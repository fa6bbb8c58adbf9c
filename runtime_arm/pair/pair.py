"""Pair: a network as two nets, one that fills the weights and one that computes, with its metadata.

On disk it is a folder, or a zip file of what the folder holds (``runtime_arm.pair.zipped``):

    init_net.pb      fill operators: the weights
    predict_net.pb   the computation
    model.json       inputs, outputs, preprocessing, labels, source, hashes of both files: ``runtime_arm.pair.metadata``
    tuning.json      optional: the engines that were fastest on one machine; see ``runtime_arm.pair.tuning``

The two ``.pb`` files alone can be loaded, too; then the inputs and outputs follow from the nets.
"""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from runtime_arm.errors import PairError
from runtime_arm.files import AnyPath, Chunk, map_file
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import filled_dtype, filled_shape, is_zeros
from runtime_arm.pair.metadata import FILES, MODEL, Model, TensorInfo, only_name, parse_model
from runtime_arm.pair.tuned import TUNING
from runtime_arm.records import field, record, replace

if TYPE_CHECKING:
    from runtime_arm.pair.tuning import Tuning

_LISTED = 3  # the most inputs or outputs that a summary lists
_PLACEHOLDER_SHAPE = (1, 1)  # of the zeros with which Caffe2's mobile exporter fills real inputs


@record(frozen=True)
class Pair:
    """Two nets, and the inputs and outputs in the source's order; immutable.

    ``from_nets`` finds out the inputs itself. If no outputs are given, they are the external outputs of predict_net,
    with unknown shapes. ``meta`` holds the other content of model.json: "preprocessing", "labels", "source". ``tuning``
    is what was measured on one machine.

    Examples:
        >>> import armnet
        >>> armnet.export("demo/digits.onnx").save("digits")
        >>> pair = armnet.Pair.load("digits")
        >>> len(pair.predict_net.op), pair.outputs[0].name
        (18, 'probabilities')
    """

    init_net: NetDef
    predict_net: NetDef
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    tuning: Optional[Tuning] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        outputs = tuple(self.outputs) or tuple(map(TensorInfo, self.predict_net.external_output))
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    @property
    def digest(self) -> str:
        """A hash of the two nets if they were loaded from files with a hash, else ""."""
        return str(self.__dict__.get("_digest", ""))

    def _of_files(self, digest: str) -> Pair:
        """The pair itself, which keeps the hash of its files from now on; a copy with other nets does not."""
        object.__setattr__(self, "_digest", digest)
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return Pair, (self.init_net, self.predict_net, self.inputs, self.outputs, dict(self.meta), self.tuning)

    @staticmethod
    def from_nets(init_net: NetDef, predict_net: NetDef) -> Pair:
        """The pair of two nets about which nothing else is known; checked.

        An external input may be named several times: to Caffe2 they are a set.
        """
        init_net, predict_net = (
            net.replace(external_input=tuple(dict.fromkeys(net.external_input))) for net in (init_net, predict_net)
        )
        return Pair(init_net, predict_net, real_inputs(init_net, predict_net)).check()

    @staticmethod
    def from_files(init_net: AnyPath, predict_net: AnyPath) -> Pair:
        """The pair of two ``.pb`` files (or ``.pbtxt``, protobuf's text format)."""
        return Pair.from_nets(read_net(init_net), read_net(predict_net))

    @staticmethod
    def load(path: AnyPath) -> Pair:
        """The pair in a folder, in a zip file or in a bundle (``.pyz``).

        Weights stay in the mapped file, except those of a zip file, which are decompressed into memory. PairError,
        naming the file, if one is missing, damaged or does not fit.
        """
        folder = Path(path)
        if folder.is_file():
            _refuse_source(folder)
            from runtime_arm.pair.archive import files_in

            return Pair.from_buffers(files_in(folder), str(folder))
        if not folder.is_dir():
            raise PairError(f"{folder}: no such {'file' if folder.suffix else 'folder'}")
        if not (folder / MODEL).exists():
            return Pair.from_files(*(folder / only_name(os.listdir(folder), name, folder) for name in FILES))
        tuning = [TUNING] if (folder / TUNING).is_file() else []
        return Pair.from_buffers({name: _mapped(folder / name) for name in (*FILES, MODEL, *tuning)}, str(folder))

    @staticmethod
    def from_buffers(buffers: Mapping[str, memoryview], source: str) -> Pair:
        """The pair in the content of its files by name. ``source`` names their place in error messages."""
        if MODEL not in buffers:
            return Pair.from_nets(*(NetDef.from_bytes(buffers[name], f"{source}/{name}") for name in FILES))
        tuning, model = None, parse_model(buffers[MODEL], f"{source}/{MODEL}")
        if TUNING in buffers:
            from runtime_arm.pair.tuning import parse_tuning

            tuning = parse_tuning(buffers[TUNING])
        nets = [_verified_net(buffers[name], model.sha256[name], f"{source}/{name}") for name in FILES]
        try:
            pair = Pair(nets[0], nets[1], model.inputs, model.outputs, model.meta, tuning).check()
            return pair._of_files(" ".join(model.sha256[name] for name in FILES))
        except PairError as error:
            raise PairError(f"{source}: {error}") from None

    def save(self, path: AnyPath) -> None:
        """Write the folder, or the file if the name ends with ``.zip``; it appears as a whole or not at all. An
        existing pair in it is replaced.

        ResourceError if the system refuses, NetError or PairError for a pair that could not be loaded again.
        """
        from runtime_arm.pair.writing import write_files

        write_files(path, self.check().files())

    def files(self) -> Iterator[Tuple[str, Iterable[Chunk]]]:
        """Name and content of each file, in pieces. The order matters, because model.json holds hashes of the nets."""
        from runtime_arm.netdef.encoder import encode_net
        from runtime_arm.pair.writing import hashed

        sha256 = {}
        for name, net in zip(FILES, (self.init_net, self.predict_net)):
            digest = hashlib.sha256()
            yield name, hashed(encode_net(net), digest)
            sha256[name] = digest.hexdigest()
        yield MODEL, [Model(self.inputs, self.outputs, sha256, self.meta).to_bytes()]
        if self.tuning is not None:
            yield TUNING, [self.tuning.to_bytes()]

    def summary(self) -> str:
        """The net in a line: its name, how many operators it has, inputs and outputs."""
        source = self.meta.get("source") or {}
        name = self.predict_net.name or str(source.get("name") or "a net")
        edges = [_listed(infos) for infos in (self.inputs, self.outputs)]
        return f"{name}: {len(self.predict_net.op)} operators, {edges[0]} -> {edges[1]}"

    def __repr__(self) -> str:
        return f"Pair({self.summary()})"

    def check(self) -> Pair:
        """The pair itself. NetError if a net cannot run, PairError if the nets do not fit together."""
        self.init_net.check()
        self.predict_net.check()
        external_input = self.predict_net.external_input
        filled = {name for op in self.init_net.op for name in op.output}
        names = [info.name for info in self.inputs]
        if not self.outputs:
            raise PairError("predict_net declares no external output")
        for info in self.inputs:
            if info.name not in external_input or names.count(info.name) > 1:
                raise PairError(f"input {info.name!r} is not an external input of predict_net, or is given twice")
        for name in external_input:
            if name not in filled and name not in names:
                raise PairError(f"predict_net takes {name!r}, which is neither an input nor filled by init_net")
        for info in self.outputs:
            if info.name not in self.predict_net.external_output:
                raise PairError(f"output {info.name!r} is not an external output of predict_net")
        return self

    def replace(self, **changes: Any) -> Pair:
        """A copy with some fields changed."""
        return replace(self, **changes)


def _listed(infos: Sequence[TensorInfo]) -> str:
    """The first few inputs or outputs with their shapes."""
    told = ", ".join(f"{info.name} {info.shape_text()}" for info in infos[:_LISTED])
    more = f" and {len(infos) - _LISTED} more" if len(infos) > _LISTED else ""
    return f"{told or 'nothing'}{more}"


def _refuse_source(file: Path) -> None:
    """PairError, which says what to do, for a file of a format that is not ours."""
    suffix = file.suffix.lower()
    if suffix in (".pb", ".pbtxt"):
        raise PairError(f"{file}: one of two nets: give the folder of init_net.pb and predict_net.pb, or both files")
    if suffix in (".onnx", ".tflite", ".prototxt", ".caffemodel"):
        raise PairError(
            f"{file}: a model of another format, no pair: armnet.open({file.name!r}) takes it as it is, "
            f"armnet export {file.name} -o PAIR makes a pair of it"
        )


def read_net(path: AnyPath) -> NetDef:
    """The net in a ``.pb`` or ``.pbtxt`` file, which is mapped. PairError if there is no file, FormatError if
    damaged."""
    file = Path(path)
    if not file.is_file():
        raise PairError(f"{file}: {'not a file' if file.exists() else 'no such file'}")
    data = map_file(file)
    if not len(data):
        raise PairError(f"{file}: the file is empty")
    if file.suffix == ".pbtxt":
        from runtime_arm.netdef.pbtxt import parse_pbtxt

        return parse_pbtxt(str(data, "utf-8-sig", "replace"), str(file))
    return NetDef.from_bytes(data, str(file))


def real_inputs(init_net: NetDef, predict_net: NetDef) -> Tuple[TensorInfo, ...]:
    """The inputs of a pair that does not name them: the external inputs of predict_net that init_net does not fill.

    Caffe2's exporters put the real inputs before the parameters, and may fill them, too: with a placeholder, which is
    zeros of shape (1, 1), or with an example. So leading placeholders are inputs; if all are filled, the first one is.
    """
    fills = {op.output[0]: op for op in init_net.op if len(op.output) == 1}
    filled = {name for op in init_net.op for name in op.output}
    inputs = []
    leading = True
    for name in predict_net.external_input:
        leading = leading and name in fills and _is_placeholder(fills[name])
        if leading or name not in filled:
            inputs.append(name)
    inputs = inputs or list(predict_net.external_input[:1])
    return tuple(_input_info(name, fills.get(name)) for name in inputs)


def _input_info(name: str, fill: Optional[OperatorDef]) -> TensorInfo:
    if fill is None:
        return TensorInfo(name)
    shape = filled_shape(fill)
    if shape is None or math.prod(shape) == 1:  # a placeholder, which says nothing about the input's shape and dtype
        return TensorInfo(name)
    return TensorInfo(name, shape, filled_dtype(fill))


def _is_placeholder(fill: OperatorDef) -> bool:
    return filled_shape(fill) == _PLACEHOLDER_SHAPE and is_zeros(fill)


def _mapped(path: Path) -> memoryview:
    if not path.is_file():
        raise PairError(f"{path}: no such file")
    return map_file(path)


def _verified_net(data: memoryview, sha256: str, source: str) -> NetDef:
    """The net in a file, whose hash must be the one in model.json."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise PairError(f"{source}: the file is not the one that {MODEL} was written for (its SHA-256 differs)")
    return NetDef.from_bytes(data, source)
