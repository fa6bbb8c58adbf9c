"""``caffe.io``: pictures, and what is done to them before a net sees them; BlobProto and Datum as arrays."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from armnet.standins.caffe.proto import caffe_pb2
from armnet.standins.caffe.resizing import resize_image
from armnet.standins.failures import raised_as
from runtime_arm.imports import needed_for
from runtime_arm.netdef import Array

__all__ = [
    "Transformer",
    "array_to_blobproto",
    "array_to_datum",
    "arraylist_to_blobprotovector_str",
    "blobproto_to_array",
    "blobprotovector_str_to_arraylist",
    "caffe_pb2",
    "datum_to_array",
    "load_image",
    "oversample",
    "resize_image",
]
_GREY = (0.2125, 0.7154, 0.0721)  # scikit-image's weights of red, green and blue


def load_image(filename: Any, color: bool = True) -> Array:
    """A picture's file as (H, W, 3), RGB, or (H, W, 1), float32 from 0 to 1. ImportError without Pillow."""
    with raised_as(ImportError), needed_for(f"{os.fspath(filename)}: a picture"):
        from PIL import Image
    with Image.open(filename) as image:
        if image.mode not in ("L", "RGB", "I", "I;16"):
            image = image.convert("L" if image.mode in ("1", "LA") else "RGB")
        pixels = np.asarray(image)
    values = pixels.astype(np.float32) / np.float32(255 if pixels.dtype == np.uint8 else 65535)
    if values.ndim == 2:
        return np.repeat(values[..., None], 3 if color else 1, axis=2)
    return np.asarray(values if color else (values * np.array(_GREY, np.float32)).sum(axis=2, keepdims=True))


def oversample(images: Sequence[Any], crop_dims: Any) -> Array:
    """Ten crops of each picture: the corners and the middle, and the same mirrored. images: (H, W, K), all alike."""
    height, width = (int(size) for size in crop_dims)
    rows, columns = np.shape(images[0])[0] - height, np.shape(images[0])[1] - width
    places = [(y, x) for y in (0, rows) for x in (0, columns)] + [(rows // 2, columns // 2)]
    crops: List[Array] = []
    for image in images:
        five = [np.asarray(image)[y : y + height, x : x + width] for y, x in places]
        crops += [*five, *(crop[:, ::-1] for crop in five)]
    return np.stack(crops).astype(np.float32)


class Transformer:
    """``Transformer({"data": net.blobs["data"].data.shape})``: makes of a picture (H, W, K) what an input takes.

    In this order: size, order of dimensions, order of channels, scale of the values, mean, scale. What is not set is
    left out.
    """

    def __init__(self, inputs: Dict[str, Sequence[int]]):
        self.inputs = inputs
        self.transpose: Dict[str, Tuple[int, ...]] = {}
        self.channel_swap: Dict[str, Tuple[int, ...]] = {}
        self.raw_scale: Dict[str, float] = {}
        self.mean: Dict[str, Array] = {}
        self.input_scale: Dict[str, float] = {}

    def preprocess(self, in_: str, data: Any) -> Array:
        """The picture as float32 for the input."""
        self._check(in_)
        values = np.asarray(data).astype(np.float32)
        size = tuple(self.inputs[in_][2:])
        if values.shape[:2] != size:
            values = resize_image(values, size)
        if in_ in self.transpose:
            values = values.transpose(self.transpose[in_])
        if in_ in self.channel_swap:
            values = values[list(self.channel_swap[in_])]
        if in_ in self.raw_scale:
            values = values * np.float32(self.raw_scale[in_])
        if in_ in self.mean:
            values = values - self.mean[in_]
        if in_ in self.input_scale:
            values = values * np.float32(self.input_scale[in_])
        return values

    def deprocess(self, in_: str, data: Any) -> Array:
        """What ``preprocess`` made, as a picture again; its size stays."""
        self._check(in_)
        values = np.array(data, np.float32).squeeze()
        if in_ in self.input_scale:
            values /= np.float32(self.input_scale[in_])
        if in_ in self.mean:
            values += self.mean[in_]
        if in_ in self.raw_scale:
            values /= np.float32(self.raw_scale[in_])
        if in_ in self.channel_swap:
            values = values[np.argsort(self.channel_swap[in_])]
        if in_ in self.transpose:
            values = values.transpose(np.argsort(self.transpose[in_]))
        return values

    def set_transpose(self, in_: str, order: Sequence[int]) -> None:
        """The order of dimensions, (2, 0, 1) for (H, W, K) to (K, H, W)."""
        self._check(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise Exception(f"the order {tuple(order)} is not of the input's dimensions, {tuple(self.inputs[in_][1:])}")
        self.transpose[in_] = tuple(order)

    def set_channel_swap(self, in_: str, order: Sequence[int]) -> None:
        """The order of channels, (2, 1, 0) for RGB to BGR."""
        self._check(in_)
        if len(order) != self.inputs[in_][1]:
            raise Exception(f"the order {tuple(order)} is not of {self.inputs[in_][1]} channels")
        self.channel_swap[in_] = tuple(order)

    def set_raw_scale(self, in_: str, scale: float) -> None:
        """A factor that comes before the mean, 255 for pictures of ``load_image``."""
        self._check(in_)
        self.raw_scale[in_] = scale

    def set_input_scale(self, in_: str, scale: float) -> None:
        """A factor that comes last."""
        self._check(in_)
        self.input_scale[in_] = scale

    def set_mean(self, in_: str, mean: Any) -> None:
        """What is subtracted: a number for each channel (K,), or a picture (K, H, W), which is resized to the input."""
        self._check(in_)
        shape = tuple(self.inputs[in_][1:])
        values = np.asarray(mean, np.float32)
        if values.ndim == 1:
            if len(values) != shape[0]:
                raise ValueError(f"the mean has {len(values)} channels, the input {shape[0]}")
            values = values[:, None, None]
        elif values.ndim == 2:
            values = values[None]
        if values.ndim != 3 or values.shape[0] not in (1, shape[0]):
            raise ValueError(f"the mean's shape {values.shape} does not fit the input's, {shape}")
        if values.shape[1:] not in ((1, 1), shape[1:]):
            values = resize_image(values.transpose(1, 2, 0), shape[1:]).transpose(2, 0, 1)
        self.mean[in_] = values

    def _check(self, in_: str) -> None:
        if in_ not in self.inputs:
            raise Exception(f"{in_!r} is none of the net's inputs, {tuple(self.inputs)}")


def blobproto_to_array(blob: Any, return_diff: bool = False) -> Array:
    """The values, or gradients, of a BlobProto, in its shape; they are float64, as in pycaffe."""
    values = np.array(blob.diff if return_diff else blob.data, np.float64)
    if any(blob.HasField(name) for name in ("num", "channels", "height", "width")):
        return values.reshape(blob.num, blob.channels, blob.height, blob.width)
    return values.reshape(tuple(blob.shape.dim))


def array_to_blobproto(arr: Any, diff: Any = None) -> Any:
    """The BlobProto of an array, with gradients if they are given."""
    values = np.asarray(arr)
    blob = caffe_pb2.BlobProto()
    blob.shape.dim.extend(values.shape)
    blob.data.extend(values.astype(float).ravel().tolist())
    if diff is not None:
        blob.diff.extend(np.asarray(diff).astype(float).ravel().tolist())
    return blob


def arraylist_to_blobprotovector_str(arraylist: Sequence[Any]) -> bytes:
    """The bytes of a BlobProtoVector of arrays."""
    content: bytes = caffe_pb2.BlobProtoVector(blobs=map(array_to_blobproto, arraylist)).SerializeToString()
    return content


def blobprotovector_str_to_arraylist(content: bytes) -> List[Array]:
    """The arrays of a BlobProtoVector's bytes."""
    return [blobproto_to_array(blob) for blob in caffe_pb2.BlobProtoVector.FromString(content).blobs]


def array_to_datum(arr: Any, label: Optional[int] = None) -> Any:
    """The Datum of an array (K, H, W): bytes if it is uint8, else floats."""
    values = np.asarray(arr)
    if values.ndim != 3:
        raise ValueError(f"a Datum takes an array (K, H, W), got {values.shape}")
    datum = caffe_pb2.Datum()
    datum.channels, datum.height, datum.width = values.shape
    if values.dtype == np.uint8:
        datum.data = values.tobytes()
    else:
        datum.float_data.extend(values.astype(float).ravel().tolist())
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum: Any) -> Array:
    """The array (K, H, W) of a Datum."""
    shape = datum.channels, datum.height, datum.width
    if len(datum.data):
        return np.frombuffer(datum.data, np.uint8).reshape(shape)
    return np.array(datum.float_data).reshape(shape)
