"""Decoder: how the outputs of one family of networks become results."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import numpy as np

from runtime_arm.errors import FeedError, UsageError
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple
from runtime_arm.results.facts import Facts
from runtime_arm.results.frame import Frame
from runtime_arm.results.result import Result

Outputs = Mapping[str, Array]
Parameters = Dict[str, Any]


class Setting(NamedTuple):
    """What a decoder is given besides the outputs of one input.

    parameters: the entry "result" of model.json. frame: where the input's pixels are in the picture. threshold: the
    lowest score that counts, None for the family's own. pixels: the original picture (H, W, 3) uint8, if there is one.
    """

    parameters: Mapping[str, Any]
    frame: Frame
    labels: Optional[Sequence[str]] = None
    threshold: Optional[float] = None
    pixels: Optional[Array] = None
    top: int = 5

    def output(self, outputs: Outputs, role: str) -> Array:
        """The output that plays a role, without its batch. UsageError if the entry names no such output."""
        name = (self.parameters.get("outputs") or {}).get(role)
        if name is None and len(outputs) == 1:
            name = next(iter(outputs))
        if not isinstance(name, str) or name not in outputs:
            raise UsageError(
                f"the result's entry 'outputs' must name the output that holds the {role}; the net gives "
                f"{', '.join(outputs)}; armnet describe PAIR --set outputs.{role}=NAME"
            )
        return np.asarray(outputs[name])[0] if np.ndim(outputs[name]) else np.asarray(outputs[name])

    def matrix(self, outputs: Outputs, role: str) -> Array:
        """That output as a matrix of float64. FeedError if it has other dimensions: the net is of another family."""
        array = self.output(outputs, role).astype(np.float64)
        if array.ndim < 2 or set(array.shape[:-2]) - {1}:
            raise FeedError(f"the {role} are a matrix in networks of this task, and the net gives {list(array.shape)}")
        matrix: Array = array.reshape(array.shape[-2:])
        return matrix

    def number(self, key: str, default: float) -> float:
        """A number among the parameters. UsageError if it is something else."""
        value = self.parameters.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
            raise UsageError(f"the result's parameter {key!r} must be a number, got {value!r}")
        return float(value)

    def least(self, default: float) -> float:
        """The least score that counts."""
        return self.threshold if self.threshold is not None else self.number("threshold", default)

    def strides(self, default: Sequence[int]) -> Sequence[int]:
        """The parameter "strides". UsageError if it is no list of positive numbers."""
        value = self.parameters.get("strides", default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(n, int) and n > 0 for n in value):
            raise UsageError(f"the result's parameter 'strides' must be a list of positive numbers, got {value!r}")
        return value


class Decoder(NamedTuple):
    """A family of networks.

    kind: of its results. decode: the result of one input. recognise: the parameters if the facts leave no doubt that a
    net belongs to the family, else None. preprocessing: how its pictures are prepared, if the pair does not state it.
    classes: whether its results have classes that labels name. features: makes the net's input from the samples of a
    window of sound, the rate and the entry "features", if the net does not take samples.
    """

    kind: str
    decode: Callable[[Outputs, Setting], Result]
    recognise: Callable[[Facts], Optional[Parameters]]
    preprocessing: Optional[Mapping[str, Any]] = None
    classes: bool = False
    features: Optional[Callable[[Array, int, Mapping[str, Any]], Array]] = None


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x) in float64, without overflow."""
    return 1.0 / (1.0 + np.exp(-np.clip(np.asarray(x, np.float64), -60.0, 60.0)))


def softmax(x: Array) -> Array:
    """Along the last dimension, in float64."""
    e = np.exp(np.asarray(x, np.float64) - np.max(x, axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def probabilities(scores: Array) -> Array:
    """Rows of scores as probabilities: as they are if they already add up to 1, else through softmax."""
    x = np.asarray(scores, np.float64)
    if x.size and x.min() >= 0 and np.allclose(x.sum(axis=-1), 1.0, atol=0.02):
        return x
    return softmax(x)


def corners_of(centres: Array, sizes: Array) -> Array:
    """Boxes (n, 4), x0 y0 x1 y1, from centres (n, 2) and sizes (n, 2)."""
    half = np.asarray(sizes, np.float64) / 2
    return np.concatenate([centres - half, centres + half], axis=-1)
