"""Caffe's layers, one class each, by family.

    @layer("AbsVal")
    class AbsVal(Layer):
        def forward(self, x):
            self.sign = np.sign(x)
            return [np.abs(x)]

        def backward(self, dy):
            return [dy * self.sign]

What a backward pass gives at a kink or a tie is what Caffe gives. Source of the formulas: Caffe's layers of these
names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Sequence

import numpy as np

from exporter.caffe.blob import Blob
from exporter.caffe.net import title
from runtime_arm.errors import ExportError, there_are
from training.caffe.layers.layer import LAYERS, Layer

FAMILIES = ("combining", "losses", "neurons", "normalization", "pooling", "products", "recurrent", "shapes")


def is_loss(type: str) -> bool:
    """Whether layers of this type are losses, which count in the objective without being told to."""
    _load()
    return type in LAYERS and LAYERS[type].loss


def make_layer(proto: Any, training: bool, random: np.random.RandomState, given: Sequence[Blob]) -> Layer:
    """The layer that a prototxt describes. ExportError for a type that is not here; unless ``training``, those that the
    exporter can translate run forwards."""
    _load()
    if proto.type in LAYERS:
        return LAYERS[proto.type](proto, training, random, given)
    if training:
        raise ExportError(f"{title(proto)}: no such layer can be trained; there are {there_are(proto.type, LAYERS)}")
    from training.caffe.layers.translated import Translated

    return Translated(proto, training, random, given)


def _load() -> None:
    for family in FAMILIES:
        import_module(f"{__name__}.{family}")
