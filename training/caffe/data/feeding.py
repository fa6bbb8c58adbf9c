"""Puts Input layers in the place of a net's data layers, and gives the batches that these would."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from exporter.caffe.net import INPUT_LAYERS, is_included, title
from runtime_arm.errors import ExportError, FeedError, UsageError
from runtime_arm.netdef import Array
from training.caffe.data.records import (
    ArrayRecords,
    FolderRecords,
    LmdbRecords,
    PictureRecords,
    Records,
    is_lmdb,
    listed,
)
from training.caffe.data.tables import Table, hdf5_table
from training.caffe.data.transform import Transform, found_file
from training.caffe.files import PHASES, input_shapes
from training.data.archive import arrays_in

IMAGES, LABELS = ("data", "images"), ("label", "labels")  # arrays of an .npz whose names are not those of the tops


class Feed:
    """What one layer gives. Batches follow each other through all samples, again and again."""

    def __init__(self, proto: Any, batch: int, count: int, seed: int, shuffled: bool):
        if not count:
            raise UsageError(f"{title(proto)}: there are no samples")
        self.proto, self.batch = proto, batch
        self._count, self._seed, self._shuffled = count, seed, shuffled
        self._order: Tuple[int, Optional[Array]] = (-1, None)

    def numbers(self, at: int, times: int = 1) -> List[Tuple[int, int]]:
        """Of the batches from this number on: for each sample how many came before it, and its own number."""
        start = at * self.batch
        return [(place, self._number(place)) for place in range(start, start + times * self.batch)]

    def _number(self, place: int) -> int:
        passes, number = divmod(place, self._count)
        if not self._shuffled:
            return number
        if self._order[0] != passes:
            random = np.random.RandomState((self._seed + passes) % (1 << 32))
            self._order = passes, random.permutation(self._count)
        assert self._order[1] is not None
        return int(self._order[1][number])

    def batches(self, at: int, times: int = 1) -> Table:
        """The rows of ``times`` batches, from number ``at`` on, by top."""
        raise NotImplementedError


class TableFeed(Feed):
    """Rows of arrays that are named as the tops are."""

    def __init__(self, proto: Any, batch: int, table: Table, seed: int, shuffled: bool, source: str):
        missing = [name for name in proto.top if name not in table]
        if missing:
            raise FeedError(f"{source}: holds {', '.join(table) or 'nothing'}; {title(proto)} needs {missing[0]!r}")
        self._table = {name: np.asarray(table[name], np.float32) for name in proto.top}
        counts = {len(array) for array in self._table.values()}
        if len(counts) > 1:
            raise FeedError(f"{source}: {', '.join(proto.top)} have different numbers of samples")
        super().__init__(proto, batch, counts.pop(), seed, shuffled)

    def batches(self, at: int, times: int = 1) -> Table:
        rows = [number for _, number in self.numbers(at, times)]
        return {name: array[rows] for name, array in self._table.items()}


class RecordFeed(Feed):
    """Transformed records, and their labels if the layer has a second top."""

    def __init__(self, proto: Any, batch: int, records: Records, seed: int, shuffled: bool, transform: Transform):
        super().__init__(proto, batch, len(records), seed, shuffled)
        self._records, self._transform = records, transform

    def batches(self, at: int, times: int = 1) -> Table:
        rows: List[Array] = []
        labels: List[float] = []
        for place, number in self.numbers(at, times):
            record = self._records.record(number)
            random = np.random.RandomState((self._seed * 1000003 + place) % (1 << 32))
            rows.append(self._transform(record.values, random))
            labels.append(record.label)
            if rows[-1].shape != rows[0].shape:
                told = f"{rows[0].shape} and {rows[-1].shape}"
                raise FeedError(
                    f"{title(self.proto)}: records of different shapes, {told}; give crop_size or new_height"
                )
        return dict(zip(self.proto.top, (np.stack(rows), np.array(labels, np.float32))))


def fed(
    net: Any, phase: str, folder: Path, given: Mapping[str, str], seed: int, by_hand: bool = False
) -> Tuple[Any, List[Feed]]:
    """The net with Input layers for its data layers in this phase, and what feeds them.

    given: layers' names -> paths that take the place of their sources; the name "" is for all that have none. folder:
    that of the solver. by_hand: layers of the types Input and MemoryData stay, for somebody writes into their blobs.
    ExportError or UsageError, naming the layer, for one that cannot be fed.
    """
    result = type(net)()
    result.CopyFrom(net)
    result.state.phase = PHASES[phase]
    feeds: List[Feed] = []
    for layer in result.layer:
        if layer.type not in INPUT_LAYERS or not is_included(layer, result.state):
            continue
        if by_hand and layer.type in ("Input", "MemoryData"):
            continue
        feed = _feed(layer, phase == "TRAIN", folder, given.get(layer.name, given.get("", "")), seed)
        feeds.append(feed)
        sample = feed.batches(0)
        name, tops = layer.name, list(layer.top)
        include, exclude = list(layer.include), list(layer.exclude)
        layer.Clear()
        layer.name, layer.type = name, "Input"
        layer.top.extend(tops)
        layer.include.extend(include)
        layer.exclude.extend(exclude)
        for top in tops:
            layer.input_param.shape.add().dim.extend(sample[top].shape)
    return result, feeds


def _feed(proto: Any, training: bool, folder: Path, given: str, seed: int) -> Feed:
    if proto.type == "HDF5Data" and not given:
        param = proto.hdf5_data_param
        table = hdf5_table(found_file(param.source, folder, title(proto)), list(proto.top))
        return TableFeed(proto, _batch(proto, param.batch_size), table, seed, param.shuffle, param.source)
    if proto.type in ("Data", "ImageData"):
        return _record_feed(proto, training, folder, given, seed)
    if proto.type not in ("Input", "MemoryData", "HDF5Data"):
        raise ExportError(f"{title(proto)}: armnet has no such source; put Data, ImageData, HDF5Data or Input there")
    if not given:
        raise UsageError(f"{title(proto)}: needs data: --data {proto.name}=FILE.npz, with {', '.join(proto.top)}")
    if proto.type == "HDF5Data":
        batch = proto.hdf5_data_param.batch_size
    else:
        shapes = input_shapes(proto) or [()]
        batch = shapes[0][0] if shapes[0] else 0
    shuffle = proto.type == "HDF5Data" and proto.hdf5_data_param.shuffle
    return TableFeed(proto, _batch(proto, batch), arrays_in(_existing(given, proto)), seed, shuffle, given)


def _record_feed(proto: Any, training: bool, folder: Path, given: str, seed: int) -> Feed:
    param = proto.data_param if proto.type == "Data" else proto.image_data_param
    transform = Transform(with_old_fields(proto, param), training, folder)
    source = _existing(given, proto) if given else found_file(param.source, folder, title(proto))
    colour = proto.type == "Data" or param.is_color
    size = (param.new_height, param.new_width) if proto.type == "ImageData" and param.new_height else None
    records: Records
    if is_lmdb(source):
        records = LmdbRecords(source, proto.type == "Data" and param.force_encoded_color)
    elif source.is_dir():
        records = FolderRecords(source, size, colour)
    elif source.suffix.lower() == ".npz":
        records = _array_records(source, proto)
    elif proto.type == "ImageData":
        records = PictureRecords(listed(source, param.root_folder), size, colour)
    else:
        raise ExportError(f"{title(proto)}: {source} is no LMDB, no folder of pictures a class and no .npz")
    shuffled = (proto.type == "ImageData" and param.shuffle) or (training and records.by_class)
    return RecordFeed(proto, _batch(proto, param.batch_size), records, seed, shuffled, transform)


def with_old_fields(proto: Any, param: Any) -> Any:
    """The layer with what old prototxts say in its own parameters said in transform_param."""
    result = type(proto)()
    result.CopyFrom(proto)
    for name in ("scale", "mean_file", "crop_size", "mirror"):
        if param.HasField(name) and not result.transform_param.HasField(name):
            setattr(result.transform_param, name, getattr(param, name))
    return result


def _array_records(path: Path, proto: Any) -> ArrayRecords:
    table = arrays_in(path)
    values = _array(table, (proto.top[0], *IMAGES), path)
    labels = _array(table, (*proto.top[1:2], *LABELS), path) if len(proto.top) > 1 else np.zeros(len(values))
    if values.ndim not in (3, 4) or len(labels) != len(values) or labels.ndim != 1:
        raise FeedError(f"{path}: {title(proto)} needs (N, C, H, W) and (N,), got {values.shape} and {labels.shape}")
    return ArrayRecords(values, labels)


def _array(table: Dict[str, Array], names: Tuple[str, ...], path: Path) -> Array:
    for name in names:
        if name in table:
            return table[name]
    raise FeedError(f"{path}: holds {', '.join(table) or 'nothing'}; none is called {' or '.join(names)}")


def _existing(path: str, proto: Any) -> Path:
    if not Path(path).exists():
        raise UsageError(f"{title(proto)}: there is no {path!r}")
    return Path(path)


def _batch(proto: Any, size: int) -> int:
    if size < 1:
        raise ExportError(f"{title(proto)}: its batch_size must be at least 1, it is {size}")
    return int(size)
