"""Caffe's HDF5 files: the parameters of a net, and solverstates. They need the package h5py."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

import numpy as np

from exporter.caffe.blob import Blob
from runtime_arm.errors import FormatError, MissingDependency, UsageError, first_line
from runtime_arm.machine.memory import require_memory
from runtime_arm.netdef import Array
from runtime_arm.pair.members import MOST_INFLATED

SUFFIX = ".h5"  # of such files beside those in protobuf
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class State(NamedTuple):
    """A solverstate: the iteration, the step of the rate, what the rule remembers, and the file of the parameters."""

    iteration: int
    step: int
    history: List[Array]
    learned_net: str


def h5py_for(what: object) -> Any:
    """The package h5py. MissingDependency, naming what needs it, if it is missing."""
    try:
        import h5py
    except ImportError as error:
        raise MissingDependency(f"{what}: HDF5 needs the package h5py: pip install 'armnet[caffe-data]'") from error
    return h5py


def is_hdf5(content: Any) -> bool:
    """Whether the content of a file is HDF5."""
    return bytes(content[: len(_SIGNATURE)]) == _SIGNATURE


def member(group: Any, name: str) -> Any:
    """What a group of an HDF5 file holds under a name. KeyError if there is nothing, ValueError if it is a link: those
    may lead to other files."""
    from h5py import HardLink

    if name in group and not isinstance(group.get(name, getlink=True), HardLink):
        raise ValueError(f"{name!r} is a link")
    return group[name]


def numbers(group: Any, name: str) -> Array:
    """The float32 numbers of a dataset. ValueError as of ``_dataset``."""
    return np.asarray(_dataset(group, name), np.float32)


def _dataset(group: Any, name: str) -> Any:
    """The dataset of this name. ValueError if its content lies in other files, or is more than its bytes can hold: a
    few bytes of a file can state any size. ResourceError if it is more than the memory."""
    dataset = member(group, name)
    if dataset.external or dataset.is_virtual:
        raise ValueError(f"the content of {name!r} lies in another file")
    if dataset.nbytes > MOST_INFLATED * dataset.id.get_storage_size():
        raise ValueError(f"{name!r} states {dataset.nbytes} bytes, and the file has fewer")
    require_memory(4 * dataset.size, lambda: f"the dataset {name!r}")
    return dataset


@contextmanager
def _opened(content: Any, what: str) -> Iterator[Any]:
    try:
        with h5py_for(what).File(io.BytesIO(content), "r") as file:
            yield file
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise FormatError(f"the {what} cannot be read as HDF5: {first_line(error)}") from error


@contextmanager
def _written(what: str, into: io.BytesIO) -> Iterator[Any]:
    with h5py_for(what).File(into, "w") as file:
        yield file


def parameters_of(content: Any) -> Dict[str, List[Blob]]:
    """The blobs of each layer that has some of its own; those that it shares are with the layer before it.

    FormatError if a layer has some of its own behind some that it shares.
    """
    found: Dict[str, List[Blob]] = {}
    with _opened(content, "caffemodel") as file:
        data = member(file, "data")
        for name in data:
            layer = member(data, name)
            if sorted(layer) != sorted(str(number) for number in range(len(layer))):
                raise FormatError(f"layer {name!r} shares a part of its parameters; save the net as a caffemodel")
            blobs = [_blob(numbers(layer, str(number))) for number in range(len(layer))]
            if blobs:
                found[name] = blobs
    return found


def _blob(values: Array) -> Blob:
    blob = Blob(values.shape)
    blob.data[...] = values
    return blob


def parameters_in(layers: Sequence[Tuple[str, Sequence[Blob]]], with_gradients: bool = False) -> bytes:
    """The file of each layer's blobs; those that a layer shares with one before it are left out.

    UsageError for a layer whose name has a slash.
    """
    content = io.BytesIO()
    seen: Set[int] = set()
    with _written("caffemodel", content) as file:
        kinds = ("data", "diff") if with_gradients else ("data",)
        for name, blobs in layers:
            if "/" in name:
                raise UsageError(f"layer {name!r}: HDF5 has no such name; save the net as a caffemodel")
            for kind in kinds:
                group = file.require_group(f"{kind}/{name}")
                for number, blob in enumerate(blobs):
                    if kind == "diff" or id(blob.data_memory) not in seen:
                        group[str(number)] = getattr(blob, kind)
            seen.update(id(blob.data_memory) for blob in blobs)
    return content.getvalue()


def state_of(content: Any) -> State:
    """What a solverstate holds."""
    with _opened(content, "solverstate") as file:
        iteration, step = (int(np.ravel(_dataset(file, name))[0]) for name in ("iter", "current_step"))
        past = member(file, "history")
        history = [numbers(past, str(number)) for number in range(len(past))]
        learned = _dataset(file, "learned_net")[()] if "learned_net" in file else b""
    return State(iteration, step, history, learned.decode() if isinstance(learned, bytes) else str(learned))


def state_in(state: State) -> bytes:
    """The file of a solverstate."""
    content = io.BytesIO()
    with _written("solverstate", content) as file:
        file["iter"], file["current_step"] = (np.array([one], np.int32) for one in (state.iteration, state.step))
        file["learned_net"] = np.bytes_(state.learned_net + "\0")
        group = file.create_group("history")
        for number, values in enumerate(state.history):
            group[str(number)] = values
    return content.getvalue()
