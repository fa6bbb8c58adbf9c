"""Caffe's files: prototxt texts, and caffemodels and solverstates as bytes."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from exporter.caffe.blob import Blob
from exporter.caffe.net import INPUT_LAYERS
from exporter.caffe.prototxt import message_class
from exporter.caffe.upgrade import upgraded
from exporter.caffe.weights import TrainedBlob, read_weights
from runtime_arm.errors import FormatError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.netdef import Array
from runtime_arm.netdef.pbtxt import problem_of
from training.caffe.hdf5 import is_hdf5, parameters_of, state_of

PHASES = {"TRAIN": 0, "TEST": 1}
Text = Union[str, bytes, "os.PathLike[str]"]  # a text, or the path of its file, as pycaffe takes it
Content = Union[bytes, AnyPath]  # of a caffemodel, or the path of its file


def parsed(text: Text, message: str, what: str) -> Any:
    """The message that a text holds. FormatError, naming what it is, if it holds another."""
    result = message_class(message)()  # says what to install where protobuf is missing
    from google.protobuf import text_format

    if isinstance(text, os.PathLike) or (isinstance(text, str) and text.endswith(".prototxt") and "\n" not in text):
        text = bytes(map_file(text))
    try:
        text_format.Parse(text.decode("utf-8-sig", "replace") if isinstance(text, bytes) else text, result)
    except (text_format.ParseError, RecursionError) as error:
        raise FormatError(f"the {what} is no {message}: {problem_of(error)}") from error
    return result


def net_of(text: Text) -> Any:
    """The NetParameter of a prototxt of any dialect, or of such a message, in the newest one."""
    return upgraded(text if isinstance(text, message_class("NetParameter")) else parsed(text, "NetParameter", "net"))


def text_of(message: Any) -> str:
    """The prototxt of a message."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(message))


def weights_of(caffemodel: Content) -> Dict[str, List[Blob]]:
    """The blobs of each layer in a caffemodel of any dialect, or in HDF5."""
    content = caffemodel if isinstance(caffemodel, bytes) else map_file(caffemodel)
    if is_hdf5(content):
        return parameters_of(content)
    return {name: [_blob_of(one) for one in blobs] for name, blobs in read_weights(caffemodel).items() if blobs}


def _blob_of(trained: TrainedBlob) -> Blob:
    values = trained.array()
    blob = Blob(values.shape)
    blob.data[...] = values
    return blob


def _parse(message: Any, content: bytes, what: str) -> None:
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(content)
    except (DecodeError, RecursionError) as error:
        raise FormatError(f"the {what} cannot be read: {error}") from error


def _blob(proto: Any) -> Blob:
    blob = Blob()
    blob.from_proto(proto)
    return blob


def caffemodel_of(name: str, layers: Sequence[Tuple[Any, Sequence[Blob]]], with_gradients: bool = False) -> bytes:
    """A caffemodel: each layer's definition with its blobs."""
    net = message_class("NetParameter")()
    net.name = name
    for proto, blobs in layers:
        layer = net.layer.add()
        layer.CopyFrom(proto)
        del layer.blobs[:]
        layer.blobs.extend(blob.to_proto(with_gradients) for blob in blobs)
    content: bytes = net.SerializeToString()
    return content


def solverstate_of(iteration: int, step: int, history: Sequence[Array], learned_net: str = "") -> bytes:
    """A solverstate: the iteration, the step of the rate, what the rule remembers, and the file of the caffemodel."""
    state = message_class("SolverState")()
    if learned_net:
        state.learned_net = learned_net
    state.iter, state.current_step = iteration, step
    for values in history:
        blob = Blob(values.shape)
        blob.data[...] = values
        state.history.append(blob.to_proto())
    content: bytes = state.SerializeToString()
    return content


def read_solverstate(content: bytes) -> Tuple[int, int, List[Array]]:
    """Iteration, step and history of a solverstate."""
    if is_hdf5(content):
        return state_of(content)[:3]
    state = message_class("SolverState")()
    _parse(state, content, "solverstate")
    return int(state.iter), int(state.current_step), [_blob(proto).data.copy() for proto in state.history]


def learned_net_of(content: bytes) -> str:
    """The file of the caffemodel that a solverstate names; empty if none."""
    if is_hdf5(content):
        return state_of(content).learned_net
    state = message_class("SolverState")()
    _parse(state, content, "solverstate")
    return str(state.learned_net)


def input_shapes(proto: Any) -> Optional[List[Tuple[int, ...]]]:
    """The declared shapes of an input layer's tops; None for a layer that computes, or declares none."""
    if proto.type not in INPUT_LAYERS and proto.type != "DummyData":
        return None
    if proto.type == "MemoryData":
        param = proto.memory_data_param
        return [(param.batch_size, param.channels, param.height, param.width), (param.batch_size,)]
    shapes = [tuple(shape.dim) for shape in proto.input_param.shape] if proto.type == "Input" else []
    return shapes * len(proto.top) if len(shapes) == 1 else shapes


def named(feeds: Mapping[str, Any]) -> str:
    """The names of feeds in an error."""
    return ", ".join(sorted(feeds)) or "none"
