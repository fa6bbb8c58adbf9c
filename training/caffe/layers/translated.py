"""Layers that have no class here: they run forwards alone, as the exporter translates them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from exporter.caffe.export import NO_SUCH_LAYER, CaffeNet, translated
from exporter.caffe.prototxt import message_class
from exporter.caffe.rules import find_rule
from exporter.caffe.weights import TrainedBlob
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from training.caffe.layers.layer import Layer

Shapes = Tuple[Tuple[int, ...], ...]


class Translated(Layer):
    """A layer of a net in the phase TEST: PriorBox, Permute, DetectionOutput and the like."""

    def setup(self, *bottoms: Array) -> None:
        self.require(find_rule(self.proto.type) is not None, NO_SUCH_LAYER)
        for blob in self._given:
            self.add_blob(blob.shape)
        self._predictors: Dict[Shapes, Tuple[Predictor, List[Array]]] = {}  # with the weights that each holds

    def forward(self, *bottoms: Array) -> List[Array]:
        shapes = tuple(x.shape for x in bottoms)
        predictor, weights = self._predictors.get(shapes, (None, []))
        if predictor is None or not all(np.array_equal(old, blob.data) for old, blob in zip(weights, self.blobs)):
            weights = [blob.data.copy() for blob in self.blobs]
            predictor = self._made(shapes, weights)
            self._predictors[shapes] = predictor, weights
        return list(predictor.run(list(bottoms)).values())

    def _made(self, shapes: Shapes, weights: List[Array]) -> Predictor:
        """The layer as a net of its own, for bottoms of these shapes."""
        proto: Any = message_class("LayerParameter")()
        proto.CopyFrom(self.proto)
        proto.bottom[:] = [f"x{number}" for number in range(len(shapes))]
        proto.top[:] = [f"y{number}" for number in range(len(self.proto.top))]
        inputs = dict(zip(proto.bottom, shapes))
        return Predictor(network_of(proto.name, inputs, [(proto, weights)], list(proto.top)), threads=1)


def network_of(
    name: str,
    inputs: Mapping[str, Sequence[int]],
    layers: Sequence[Tuple[Any, Sequence[Array]]],
    outputs: Sequence[str],
) -> Pair:
    """Layers, each with its parameters, as the exporter translates them; the weights keep their memory.

    inputs: the shapes of what comes from outside; the sizes of batches and pictures are left open. ExportError for what
    cannot be translated.
    """
    source: Any = message_class("LayerParameter")(name="inputs", type="Input", top=list(inputs))
    for shape in inputs.values():
        source.input_param.shape.add().dim.extend(shape)
    trained = {
        proto.name: [TrainedBlob(values.shape, values.reshape(-1)) for values in weights]
        for proto, weights in layers
        if weights
    }
    builder, given = translated(CaffeNet(name, [source, *(proto for proto, _ in layers)], outputs), trained)
    return builder.pair(name, given, [TensorInfo(one, None, "float32") for one in outputs], {})
