"""Sounds from files and arrays, at the rate that a net wants."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest

from runtime_arm.app.sounds import read_sound, resampled
from runtime_arm.errors import ArmnetError, FeedError


def tone(rate: int, hertz: float, seconds: float = 0.5) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(int(rate * seconds)) / rate).astype(np.float32)


def written(samples: np.ndarray, rate: int, width: int = 2, channels: int = 1) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        whole = np.rint(samples.astype(np.float64) * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
        raw = whole.view(np.uint8).reshape(-1, 4)[:, :width]
        file.writeframes((whole + 128).astype(np.uint8).tobytes() if width == 1 else raw.tobytes())
    return content.getvalue()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_integers_of_every_width_are_read(width: int, tmp_path: Path) -> None:
    samples = tone(16000, 440)
    (tmp_path / "tone.wav").write_bytes(written(samples, 16000, width))
    np.testing.assert_allclose(read_sound(tmp_path / "tone.wav", 16000), samples, atol=0.02)  # bytes
    np.testing.assert_allclose(read_sound(written(samples, 16000, width), 16000), samples, atol=0.02)  # bytes


def test_channels_are_averaged_and_arrays_taken() -> None:
    both = np.stack([np.ones(100), np.zeros(100)], axis=1)
    assert read_sound(both.astype(np.float32), 16000) == pytest.approx(np.full(100, 0.5))
    assert read_sound(np.full(100, 1 << 14, np.int16), 16000) == pytest.approx(np.full(100, 0.5))
    stereo = written(both.reshape(-1).astype(np.float32), 8000, 2, channels=2)
    assert len(read_sound(stereo, 16000)) == 200


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_a_tone_keeps_its_pitch_and_loudness_at_another_rate(rate: int) -> None:
    ours, wanted = resampled(tone(rate, 440), rate, 16000), tone(16000, 440)
    middle = slice(500, 7000)
    np.testing.assert_allclose(ours[middle], wanted[middle], atol=0.02)  # filter


def test_what_a_lower_rate_cannot_carry_is_silent() -> None:
    assert np.abs(resampled(tone(48000, 12000), 48000, 16000)[200:-200]).max() < 0.02


@pytest.mark.parametrize("source", [b"", b"RIFF1234WAVE", b"no sound at all" * 10])
def test_what_is_no_sound_is_refused_in_one_line(source: bytes) -> None:
    with pytest.raises(ArmnetError, match="sound"):
        read_sound(source, 16000)


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.full(9, np.nan, np.float32), np.zeros((2, 2, 2))])
def test_waveforms_that_cannot_be_heard_are_refused(samples: np.ndarray) -> None:
    with pytest.raises(FeedError):
        read_sound(samples, 16000)
