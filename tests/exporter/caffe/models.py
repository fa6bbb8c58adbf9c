"""Small Caffe nets for tests: text, and caffemodels in every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Sequence

import numpy as np

from exporter import export
from exporter.caffe.blob import Blob
from exporter.caffe.prototxt import message_class
from runtime_arm.pair.pair import Pair

Blobs = Dict[str, Sequence[Any]]
LEGACY_AXES = 4


def caffemodel(blobs: Blobs, *, double: bool = False, legacy: bool = False, v1: bool = False) -> bytes:
    """The bytes of a caffemodel: layers by name, in single or double precision, with today's or legacy (4-D) shapes."""
    file = message_class("WeightFile")()
    for name, arrays in blobs.items():
        layer = (file.layers if v1 else file.layer).add(name=name)
        for array in arrays:
            blob = Blob(np.shape(array), np.float64 if double else np.float32)
            blob.data[...] = array
            layer.blobs.add().MergeFromString(blob.to_proto(legacy=legacy).SerializeToString())
    return bytes(file.SerializeToString())


def pair_of(folder: Path, text: str, blobs: Any = None, **options: Any) -> Pair:
    """The pair of a net given as text, with blobs by layer, a caffemodel's bytes, or no weights."""
    prototxt, model = folder / "net.prototxt", folder / "net.caffemodel"
    prototxt.write_text(text)
    if blobs is None:
        return export(prototxt, **options)
    model.write_bytes(blobs if isinstance(blobs, bytes) else caffemodel(blobs))
    return export(prototxt, model, **options)


def net(*layers: str, dims: Sequence[int] = (1, 3, 8, 8)) -> str:
    """A net whose input x has these dimensions."""
    shape = " ".join(f"dim: {n}" for n in dims)
    return "\n".join([f'layer {{ name: "x" type: "Input" top: "x" input_param {{ shape {{ {shape} }} }} }}', *layers])
