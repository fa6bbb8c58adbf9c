"""Cepstral coefficients beside their definition, in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import UsageError
from runtime_arm.results.cepstra import cepstra

SMALL = {"frame": 20, "step": 15, "bands": 6, "lowest": 50.0, "highest": 3000.0, "coefficients": 4}


def mel(hertz: float) -> float:
    return 1127.0 * math.log(1 + hertz / 700.0)


def by_definition(samples: np.ndarray, rate: int) -> np.ndarray:
    found, size = [], 32  # the next power of two
    for start in range(0, len(samples) - 20 + 1, 15):
        frame = [samples[start + i] * (0.5 - 0.5 * math.cos(2 * math.pi * i / 20)) for i in range(20)]
        energies = [0.0] * 6
        for k in range(1, size // 2 + 1):
            turns = [2 * math.pi * k * i / size for i in range(20)]
            real, imaginary = (sum(x * f(turn) for x, turn in zip(frame, turns)) for f in (math.cos, math.sin))
            at, width = mel(k * rate / size), (mel(3000) - mel(50)) / 7
            for band in range(6):
                middle = mel(50) + (band + 1) * width
                energies[band] += math.hypot(real, imaginary) * max(0.0, 1 - abs(at - middle) / width)
        logs = [math.log(energy + 1e-6) for energy in energies]
        waves = [[math.cos(math.pi * (band + 0.5) * n / 6) for band in range(6)] for n in range(4)]
        found.append([math.sqrt(2 / 6) * sum(x * w for x, w in zip(logs, wave)) for wave in waves])
    return np.asarray(found)


def test_coefficients_are_those_of_the_definition() -> None:
    samples = np.random.default_rng(0).standard_normal(100)
    ours = cepstra(samples, 8000, SMALL)
    assert ours.dtype == np.float32
    assert_close(ours, by_definition(samples, 8000).astype(np.float32), terms=100)


def test_a_second_has_49_frames_of_10_coefficients() -> None:
    assert cepstra(np.zeros(16000), 16000, {}).shape == (49, 10)
    silence = cepstra(np.zeros(16000), 16000, {})
    np.testing.assert_allclose(silence[:, 0], math.log(1e-6) * 40 * math.sqrt(2 / 40), rtol=1e-6)
    np.testing.assert_allclose(silence[:, 1:], 0, atol=1e-4)


@pytest.mark.parametrize(
    "wrong", [{"frame": 200}, {"bands": 0}, {"highest": 5000.0}, {"coefficients": 7}, {"step": "x"}]
)
def test_features_that_make_no_sense_are_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="features"):
        cepstra(np.zeros(100), 8000, {**SMALL, **dict(wrong)})  # type: ignore[call-overload]
