"""What Caffe does with a record before the net gets it: crop, mirror, mean, scale. Source: data_transformer.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import numpy as np

from exporter.caffe.blob import Blob
from exporter.caffe.net import title
from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ExportError, FeedError, FormatError, UsageError
from runtime_arm.files import map_file
from runtime_arm.netdef import Array

UNKNOWN = ("resize_param", "noise_param", "distort_param", "expand_param", "emit_constraint")  # of forks


class Transform:
    """The transform_param of a data layer. training: crops and mirrors are drawn, else crops come from the middle.

    ExportError, naming the layer, for what Caffe's own layers do not have.
    """

    def __init__(self, proto: Any, training: bool, folder: Path):
        param = proto.transform_param
        for name in UNKNOWN:
            if param.HasField(name):
                raise ExportError(f"{title(proto)}: {name} is of a fork of Caffe and not supported")
        self._title, self._training = title(proto), training
        self._crop = (param.crop_h or param.crop_size, param.crop_w or param.crop_size)
        self._mirror, self._scale = param.mirror, np.float32(param.scale)
        if param.mean_file and param.mean_value:
            raise ExportError(f"{self._title}: has both mean_file and mean_value")
        self._mean: Optional[Array] = None
        if param.mean_file:
            self._mean = _mean_of(found_file(param.mean_file, folder, self._title))
        elif param.mean_value:
            self._mean = np.array(param.mean_value, np.float32)[:, None, None]

    def __call__(self, values: Array, random: np.random.RandomState) -> Array:
        """The values (C, H, W) that the net gets."""
        result: Array = values.astype(np.float32)
        if self._mean is not None:
            if self._mean.shape[0] not in (1, len(values)) or self._mean.shape[1:] not in ((1, 1), values.shape[1:]):
                raise FeedError(f"{self._title}: the mean {self._mean.shape} does not fit a record {values.shape}")
            result = result - self._mean
        result = self._cropped(result, random) * self._scale
        if self._mirror and self._training and random.randint(2):
            result = result[:, :, ::-1]
        return result

    def _cropped(self, values: Array, random: np.random.RandomState) -> Array:
        high, wide = self._crop
        if not high:
            return values
        room = values.shape[1] - high, values.shape[2] - wide
        if min(room) < 0:
            raise FeedError(f"{self._title}: a record {values.shape} is smaller than the crop {high}x{wide}")
        top, left = (random.randint(n + 1) for n in room) if self._training else (n // 2 for n in room)
        part: Array = values[:, top : top + high, left : left + wide]
        return part


def _mean_of(path: Path) -> Array:
    from google.protobuf.message import DecodeError

    proto, blob = message_class("BlobProto")(), Blob()
    try:
        proto.ParseFromString(bytes(map_file(path)))
    except (DecodeError, RecursionError) as error:
        raise FormatError(f"{path}: is no mean file: {error}") from error
    blob.from_proto(proto)
    mean: Array = blob.data[0] if blob.data.ndim == 4 else blob.data
    if mean.ndim != 3:
        raise FormatError(f"{path}: a mean has three dimensions, got {mean.shape}")
    return mean


def found_file(name: str, folder: Path, who: str) -> Path:
    """A path in one of Caffe's files: as it stands, or seen from the folder of the solver. UsageError if neither is."""
    for path in (Path(name), folder / name):
        if path.exists():
            return path
    raise UsageError(f"{who}: there is no {name!r}, neither here nor in {folder}")
