"""Features of sounds: mel-frequency cepstral coefficients, which keyword spotters take instead of samples.

An entry "sound" of model.json says under "features" how they are made: ``frame`` and ``step``, samples; ``bands``,
filters from ``lowest`` to ``highest`` Hz that lie evenly on the mel scale; ``coefficients``, how many are kept.
Source: Davis and Mermelstein, 1980; the conventions (periodic Hann window, magnitudes, HTK's mel scale, log(x + 1e-6),
orthogonal DCT-II without its own scale for the first one) are those of TensorFlow's tf.signal.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

import numpy as np

from runtime_arm.errors import UsageError
from runtime_arm.netdef import Array

USUAL: Dict[str, float] = {
    "frame": 480,
    "step": 320,
    "bands": 40,
    "lowest": 20.0,
    "highest": 4000.0,
    "coefficients": 10,
}  # of MLPerf Tiny's keyword spotter
_FLOOR = 1e-6  # added to energies, whose logarithm is taken
_MOST = 1 << 16


def cepstra(samples: Array, rate: int, features: Mapping[str, Any]) -> Array:
    """(frames, coefficients) of samples (n,). UsageError if the features are described wrongly, or none fits."""
    known = {key: _number(features, key, usual) for key, usual in USUAL.items()}
    frame, step, bands, kept = (int(known[key]) for key in ("frame", "step", "bands", "coefficients"))
    if len(samples) < frame or kept > bands or not 0 <= known["lowest"] < known["highest"] <= rate / 2:
        raise UsageError(f"the result's entry 'features' does not fit {len(samples)} samples: {known}")
    starts = np.arange(0, len(samples) - frame + 1, step)
    frames = np.asarray(samples, np.float64)[starts[:, None] + np.arange(frame)]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(frame) / frame)
    size = 1 << (frame - 1).bit_length()
    energies = np.abs(np.fft.rfft(frames * window, size)) @ _filters(
        rate, size, bands, known["lowest"], known["highest"]
    )
    turns = np.cos(np.pi * (np.arange(bands)[:, None] + 0.5) * np.arange(kept) / bands)
    return np.asarray(np.log(energies + _FLOOR) @ turns * np.sqrt(2.0 / bands), np.float32)


def _filters(rate: int, size: int, bands: int, lowest: float, highest: float) -> Array:
    """(size / 2 + 1, bands): triangles on the mel scale, of which each reaches from its neighbour to its neighbour."""
    bins = _mel(np.linspace(0.0, rate / 2, size // 2 + 1))[:, None]
    edges = np.linspace(_mel(lowest), _mel(highest), bands + 2)
    below, middle, above = edges[:-2], edges[1:-1], edges[2:]
    weights = np.minimum((bins - below) / (middle - below), (above - bins) / (above - middle))
    weights[0] = 0.0  # the constant part
    return np.asarray(np.maximum(weights, 0.0))


def _mel(hertz: Any) -> Array:
    return np.asarray(1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0))


def _number(features: Mapping[str, Any], key: str, usual: float) -> float:
    value = features.get(key, usual)
    least = 0 if key == "lowest" else 1
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= _MOST:
        raise UsageError(
            f"the result's entry 'features' must hold {key!r} as a number from {least} to {_MOST}, got {value!r}"
        )
    return float(value)
