"""Reads the trained blobs of a caffemodel, of every dialect, as views of the mapped file: WeightFile in caffe.proto.

Protobuf would copy every number and return them one by one.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from exporter.caffe.blob import require_count
from runtime_arm.errors import FormatError
from runtime_arm.files import AnyPath, map_file
from runtime_arm.netdef import Array
from runtime_arm.netdef.wire import BYTES, VARINT, Buffer, WireError

MOST_MESSAGES = 1 << 20  # each takes far more memory than bytes

# Field numbers. A file has layers of one dialect; a V0 layer lies inside a V1 layer.
_V2_LAYERS, _V1_LAYERS, _V0_LAYER = 100, 2, 1
_NAME = {_V2_LAYERS: 1, _V1_LAYERS: 4, _V0_LAYER: 1}
_BLOBS = {_V2_LAYERS: 7, _V1_LAYERS: 6, _V0_LAYER: 50}
_OLD_DIMS, _DATA, _SHAPE, _DOUBLE_DATA = (1, 2, 3, 4), 5, 7, 8
_DTYPES: Dict[int, np.dtype[Any]] = {_DATA: np.dtype("<f4"), _DOUBLE_DATA: np.dtype("<f8")}
_RUNS = frozenset({_DATA << 3 | 5, _DOUBLE_DATA << 3 | 1})  # tags of numbers that are not packed


class TrainedBlob(NamedTuple):
    """The shape of one blob and its values, float32 or float64, flat; they may contradict each other."""

    shape: Tuple[int, ...]
    values: Array

    def array(self) -> Array:
        """The values as float32 in the blob's shape. FormatError if they do not fit it."""
        require_count("data", self.shape, self.values.size)
        array: Array = self.values.reshape(self.shape).astype(np.float32, copy=False)
        return array


def read_weights(source: Union[AnyPath, bytes]) -> Dict[str, Sequence[TrainedBlob]]:
    """The blobs of each layer by name; of layers with one name, the last that has blobs. FormatError names the file.

    source: the file's path, or its content.
    """
    reader = _Reader(memoryview(source) if isinstance(source, bytes) else map_file(source))
    found: Dict[str, Sequence[TrainedBlob]] = {}
    try:
        for name, blobs in reader.layers():
            if blobs or name not in found:
                found[name] = blobs
    except WireError as error:
        at = "" if error.offset is None else f" (at byte {error.offset} of {len(reader.buffer.view)})"
        what = "the content" if isinstance(source, bytes) else os.fspath(source)
        raise FormatError(f"{what}: is no caffemodel: {error.problem}{at}") from None
    return found


class _Reader:
    def __init__(self, data: memoryview):
        self.buffer = Buffer(data)
        self._messages = 0

    def layers(self) -> Iterator[Tuple[str, List[TrainedBlob]]]:
        """Each layer's name and blobs, in order."""
        for number, at, stop in self._messages_of(0, len(self.buffer.view), (_V1_LAYERS, _V2_LAYERS)):
            yield self._layer(number, at, stop)

    def _messages_of(self, at: int, stop: int, wanted: Sequence[int]) -> Iterator[Tuple[int, int, int]]:
        """The fields with these numbers between two offsets; they must be messages or strings."""
        for number, wire_type, begin, end in self.buffer.fields(at, stop):
            if number in wanted:
                if wire_type != BYTES:
                    raise WireError(f"field {number} has wire type {wire_type}, a message is needed", begin)
                self._messages += 1
                if self._messages > MOST_MESSAGES:
                    raise WireError(f"it has more than {MOST_MESSAGES} layers and blobs", begin)
                yield number, begin, end

    def _layer(self, form: int, at: int, stop: int) -> Tuple[str, List[TrainedBlob]]:
        name, blobs = "", []
        inner = (_V0_LAYER,) if form == _V1_LAYERS else ()
        for number, begin, end in self._messages_of(at, stop, (_NAME[form], _BLOBS[form], *inner)):
            if number in inner:
                return self._layer(_V0_LAYER, begin, end)
            if number == _BLOBS[form]:
                blobs.append(self._blob(begin, end))
            else:
                name = str(self.buffer.view[begin:end], "utf-8", "replace")
        return name, blobs

    def _blob(self, at: int, stop: int) -> TrainedBlob:
        old: Dict[int, int] = {}
        shape: List[int] = []
        parts: Dict[int, List[Array]] = {_DATA: [], _DOUBLE_DATA: []}
        for number, wire_type, begin, end in self.buffer.fields(at, stop, _RUNS):
            if number in _OLD_DIMS and wire_type == VARINT:
                old[number] = self._integer(begin, end)
            elif number in parts:
                parts[number].append(self._values(_DTYPES[number], wire_type, begin, end))
            elif number == _SHAPE and wire_type == BYTES:
                shape += self._dims(begin, end)
        chosen = parts[_DOUBLE_DATA] or parts[_DATA] or [np.zeros(0, np.float32)]
        dims = tuple(old.get(number, 0) for number in _OLD_DIMS) if old else tuple(shape)
        return TrainedBlob(dims, chosen[0] if len(chosen) == 1 else np.concatenate(chosen))

    def _values(self, dtype: np.dtype[Any], wire_type: int, at: int, end: int) -> Array:
        if wire_type == BYTES:
            return self.buffer.packed_fixed(at, end, dtype)
        if wire_type != (5 if dtype.itemsize == 4 else 1):
            raise WireError(f"wire type {wire_type}, numbers are needed", at)
        return self.buffer.unpacked_fixed(at, end, dtype)

    def _dims(self, at: int, stop: int) -> List[int]:
        """BlobShape: dimensions packed or one by one."""
        dims: List[int] = []
        for number, wire_type, begin, end in self.buffer.fields(at, stop):
            if number == 1 and wire_type == BYTES:
                dims += [int(n) for n in self.buffer.packed_varints(begin, end)]
            elif number == 1 and wire_type == VARINT:
                dims.append(self._integer(begin, end))
        return dims

    def _integer(self, at: int, end: int) -> int:
        value = self.buffer.varint(at, end)[0]
        return value - (1 << 64) if value >> 63 else value
