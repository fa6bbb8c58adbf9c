"""What layers read, summed up: for each layer, which of the numbers under a filter are large together."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence

import numpy as np

from optimize.quantization.calibration import Blobs, Sample
from optimize.quantization.filters import CONVOLUTIONS, Filters
from optimize.rewriting.report import Progress, quiet
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import Array
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec

POSITIONS = 256  # of a filter in a sample that count; more tell little that is new


class Inputs(NamedTuple):
    """What a layer's filters meet, x (groups, K), K channels times taps. products: the sum of x x^T, float64
    (groups, K, K); sums: that of x; rows: of how many."""

    products: Array
    sums: Array
    rows: int

    @property
    def mean(self) -> Array:
        """(groups, K)."""
        return np.asarray(self.sums / max(self.rows, 1))

    @property
    def centred(self) -> Array:
        """The sum of x x^T where x counts from its mean."""
        return np.asarray(self.products - self.mean[:, :, np.newaxis] * self.sums[:, np.newaxis, :])


def covariances(
    pair: Pair,
    layers: Mapping[str, Filters],
    weights: Mapping[str, Array],
    samples: Sequence[Sample],
    progress: Progress = quiet,
) -> Dict[str, Inputs]:
    """What each layer's filters meet on the samples. weights: of the layers, by their names."""
    if not layers:
        return {}
    random = np.random.RandomState(0)
    sizes = {name: (layer.shape[0], layer.shape[2] * layer.shape[3]) for name, layer in layers.items()}
    products = {name: np.zeros((groups, terms, terms)) for name, (groups, terms) in sizes.items()}
    sums, counts = {name: np.zeros(size) for name, size in sizes.items()}, dict.fromkeys(layers, 0)
    reading: Dict[str, List[str]] = {}
    for name, layer in layers.items():
        reading.setdefault(layer.op.input[0], []).append(name)
    with Predictor(pair, threads=1) as predictor:
        blobs = Blobs(predictor, list(reading))
        for number, sample in enumerate(samples):
            progress("look at what layers read", number, len(samples))
            for blob, values in blobs.of(sample):
                for name in reading[blob]:
                    met = _met(layers[name], values, weights[name], random)
                    products[name] += np.matmul(met.swapaxes(1, 2), met)
                    sums[name] += met.sum(axis=1)
                    counts[name] += met.shape[1]
    return {name: Inputs(products[name], sums[name], counts[name]) for name in layers}


def _met(layer: Filters, x: Array, weight: Array, random: np.random.RandomState) -> Array:
    """What the filters of each group meet at some positions: float64 (groups, positions, K)."""
    groups, _, depth, taps = layer.shape
    if layer.op.full_type not in CONVOLUTIONS:
        return np.asarray(x.reshape(1, -1, depth), np.float64)
    window = convolution_of(layer.op, TensorSpec.known(x), TensorSpec.known(weight)).window
    height, width = window.output
    count = len(x) * height * width
    places = np.arange(count) if count <= POSITIONS else random.choice(count, POSITIONS, replace=False)
    image, place = np.divmod(places, height * width)
    starts = np.divmod(place, width)
    outside = np.zeros((len(places), *window.kernel), bool)
    indices = []
    for axis, start in enumerate(starts):
        along = start[:, np.newaxis] * window.stride[axis] - window.head[axis]
        along = along + np.arange(window.kernel[axis]) * window.dilation[axis]
        along = along[:, :, np.newaxis] if axis == 0 else along[:, np.newaxis, :]
        outside |= (along < 0) | (along >= window.image[axis])
        indices.append(np.clip(along, 0, window.image[axis] - 1))
    met = x[image[:, np.newaxis, np.newaxis], :, indices[0], indices[1]].astype(np.float64)  # (P, kh, kw, C)
    met[outside] = 0
    met = met.reshape(len(places), taps, groups, depth).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(met).reshape(groups, len(places), depth * taps)
