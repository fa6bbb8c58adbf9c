"""How Caffe fills new parameters. Source: Caffe's filler.hpp."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import numpy as np

from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array

Shape = Tuple[int, ...]
Filler = Callable[[Any, Shape, np.random.RandomState], Array]


def filled(filler: Any, shape: Shape, random: np.random.RandomState) -> Array:
    """New values for a parameter, float32. ExportError for a filler that Caffe does not have."""
    function = _FILLERS.get(filler.type)
    if function is None:
        raise ExportError(f"there is no filler {filler.type!r}; there are {', '.join(_FILLERS)}")
    return np.asarray(function(filler, shape, random), np.float32).reshape(shape)


def _fan(filler: Any, shape: Shape) -> float:
    """The number that the variance is divided by: 0 FAN_IN, 1 FAN_OUT, 2 AVERAGE."""
    count = int(np.prod(shape))
    fan_in, fan_out = count / max(shape[0], 1), count / max(shape[1] if len(shape) > 1 else 1, 1)
    return (fan_in, fan_out, (fan_in + fan_out) / 2)[filler.variance_norm]


def _uniform(filler: Any, shape: Shape, random: np.random.RandomState) -> Any:
    return random.uniform(filler.min, filler.max, shape)


def _gaussian(filler: Any, shape: Shape, random: np.random.RandomState) -> Any:
    values = random.normal(filler.mean, filler.std, shape)
    if filler.sparse >= 0:
        values *= random.binomial(1, min(filler.sparse / max(shape[0], 1), 1.0), shape)
    return values


def _xavier(filler: Any, shape: Shape, random: np.random.RandomState) -> Any:
    limit = np.sqrt(3 / _fan(filler, shape))
    return random.uniform(-limit, limit, shape)


def _msra(filler: Any, shape: Shape, random: np.random.RandomState) -> Any:
    return random.normal(0, np.sqrt(2 / _fan(filler, shape)), shape)


def _positive_unit_ball(filler: Any, shape: Shape, random: np.random.RandomState) -> Any:
    values = random.uniform(0, 1, (shape[0], int(np.prod(shape[1:]))))
    return values / values.sum(1, keepdims=True)


def _bilinear(filler: Any, shape: Shape, random: np.random.RandomState) -> Any:
    """The weights with which a transposed convolution enlarges by interpolation."""
    size = shape[-1]
    factor = -(-size // 2)
    centre = (2 * factor - 1 - factor % 2) / (2 * factor)
    line = 1 - np.abs(np.arange(size) / factor - centre)
    return np.broadcast_to(np.multiply.outer(line, line), shape)


_FILLERS: Dict[str, Filler] = {
    "constant": lambda filler, shape, random: np.full(shape, filler.value),
    "uniform": _uniform,
    "gaussian": _gaussian,
    "xavier": _xavier,
    "msra": _msra,
    "positive_unitball": _positive_unit_ball,
    "bilinear": _bilinear,
}
