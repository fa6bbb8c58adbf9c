"""Sounds: read from files, brought to the rate of the net, cut into windows and heard one after the other.

An entry "result" of model.json says under "sound" how a net hears:

    input       the input that takes the samples, (1, samples) or (samples)
    window      new samples a run
    hop         samples from one window to the next (default: the window)
    context     samples before a window that are fed with it
    rate        samples a second
    rate_input  an input that is told the rate
    state       output -> input: what one run hands to the next
    features    how each window becomes features, if the net takes these (``runtime_arm.results.cepstra``); the loudest
                sample of the sound is 1 then
"""

from __future__ import annotations

import io
import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from runtime_arm.app.answer import Net
from runtime_arm.errors import FeedError, MissingDependency, UsageError, first_line
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".opus")
_LONGEST = 1 << 28  # samples: more than four hours at 16 kHz
_TAPS = 16  # of the resampling filter, on each side
_BLOCK = 1 << 14  # samples that are resampled at once
_RATES = (1000, 384000)


def is_sound(path: Any) -> bool:
    """Whether the file name is that of a sound."""
    return str(os.fspath(path)).lower().endswith(SUFFIXES)


def read_sound(source: Any, rate: int, given_rate: Optional[int] = None) -> Array:
    """The samples (n,) float32, from -1 to 1, of a path, bytes, a file object or a waveform, at ``rate`` a second.

    Channels are averaged. given_rate: that of a waveform (default: ``rate``). FeedError if it cannot be read.
    """
    name = os.fspath(source) if isinstance(source, (str, os.PathLike)) else "the sound"
    if isinstance(source, (np.ndarray, list)):
        samples, found = _waveform(np.asarray(source)), given_rate or rate
    else:
        samples, found = _decoded(source, name)
    if not _RATES[0] <= found <= _RATES[1]:
        raise FeedError(f"{name}: {found} samples a second cannot be heard")
    if not len(samples):
        raise FeedError(f"{name}: holds no samples")
    if not np.isfinite(samples).all():
        raise FeedError(f"{name}: holds samples that are not finite")
    return resampled(samples, found, rate)


def _waveform(samples: Array) -> Array:
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "fi":
        raise FeedError(f"a waveform is (samples,) or (samples, channels), got {samples.dtype.name} {samples.shape}")
    if samples.dtype.kind == "i":
        samples = samples / np.float32(-float(np.iinfo(samples.dtype).min))
    return (samples if samples.ndim == 1 else samples.mean(axis=1)).astype(np.float32)


def _decoded(source: Any, name: str) -> Tuple[Array, int]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(bytes(source))
    elif not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
        raise FeedError(f"a sound is a path, bytes, a file or a waveform, got {type(source).__name__}")
    elif hasattr(source, "read"):
        source = io.BytesIO(source.read())
    import wave  # pictures do without

    try:
        return _wav(source, name)
    except FileNotFoundError as error:
        raise FeedError(f"{name}: no such file") from error
    except (wave.Error, EOFError, OSError) as error:
        if isinstance(source, io.BytesIO):
            source.seek(0)
        return _other(source, name, first_line(error))


def _wav(source: Any, name: str) -> Tuple[Array, int]:
    """A .wav of 8, 16, 24 or 32 bit integers, by the standard library."""
    import wave

    with wave.open(os.fspath(source) if isinstance(source, os.PathLike) else source, "rb") as file:
        width, channels, count = file.getsampwidth(), file.getnchannels(), file.getnframes()
        if count * channels > _LONGEST:
            raise FeedError(f"{name}: {count} samples are too many")
        raw = np.frombuffer(file.readframes(count), np.uint8)
        rate = file.getframerate()
    if width not in (1, 2, 3, 4) or len(raw) % (width * channels):
        raise FeedError(f"{name}: cut off, or samples of {8 * width} bits")
    if width == 1:
        values: Array = (raw.astype(np.float32) - 128) / 128
    else:
        wide = np.zeros((len(raw) // width, 4), np.uint8)
        wide[:, 4 - width :] = raw.reshape(-1, width)
        values = wide.view("<i4")[:, 0].astype(np.float32) / 2.0**31
    return values.reshape(-1, channels).mean(axis=1, dtype=np.float32), rate


def _other(source: Any, name: str, problem: str) -> Tuple[Array, int]:
    """A sound of another format, by the package soundfile."""
    try:
        import soundfile
    except ImportError as error:
        raise MissingDependency(
            f"{name}: not a .wav of integers ({problem}); other sounds need soundfile: pip install 'armnet[audio]'"
        ) from error
    try:
        with soundfile.SoundFile(source) as file:
            if file.frames * file.channels > _LONGEST:
                raise FeedError(f"{name}: {file.frames} samples are too many")
            return file.read(dtype="float32", always_2d=True).mean(axis=1), int(file.samplerate)
    except (RuntimeError, OSError, TypeError) as error:  # libsndfile's errors are RuntimeErrors
        raise FeedError(f"{name}: cannot be read as a sound: {first_line(error)}") from error


def resampled(samples: Array, rate: int, wanted: int) -> Array:
    """The samples at another rate, through a windowed sinc that removes frequencies above the lower rate's limit."""
    if rate == wanted:
        return samples
    count = max(1, len(samples) * wanted // rate)
    cut = min(1.0, wanted / rate)
    reach = int(np.ceil(_TAPS / cut))
    padded = np.pad(samples, reach)
    result = np.empty(count, np.float32)
    for start in range(0, count, _BLOCK):
        at = np.arange(start, min(start + _BLOCK, count)) * (rate / wanted)
        middle = np.floor(at).astype(np.int64)
        taps = middle[:, None] + np.arange(1 - reach, reach + 1)
        distance = taps - at[:, None]
        weight = cut * np.sinc(cut * distance) * np.cos(np.pi * np.clip(distance / (reach + 1), -1, 1) / 2) ** 2
        result[start : start + len(at)] = (padded[taps + reach] * weight).sum(axis=1) / weight.sum(axis=1)
    return result


def step_of(sound: Mapping[str, Any]) -> float:
    """Seconds from one window to the next."""
    return _count(sound, "hop", _count(sound, "window", None)) / int(sound["rate"])


def answer_windows(model: Net, wave_form: Array) -> Dict[str, Array]:
    """The net's outputs for each window of a sound: the entry's outputs (1, windows, ...).

    The last window is filled up with silence.
    """
    sound = model.entry["sound"]
    window, context = _count(sound, "window", None), _count(sound, "context", 0)
    hop = _count(sound, "hop", window)
    steps = max(1, -(-max(len(wave_form) - window, 0) // hop) + 1)
    padded = np.concatenate([np.zeros(context, np.float32), wave_form, np.zeros(window, np.float32)])
    states = sound.get("state") or {}  # each sound starts with a new state
    fixed, carried = _side_inputs(model, sound, states)
    roles = model.entry.get("outputs") or {}
    heard: Dict[str, List[Array]] = {name: [] for name in roles.values()}
    if "features" in sound:
        padded = padded / np.float32(np.abs(padded).max(initial=0.0) or 1.0)
    for step in range(steps):
        part = padded[step * hop : step * hop + context + window]
        outputs = model.infer({sound["input"]: _shaped(model, sound["input"], part), **fixed, **carried})
        carried = {target: outputs[source] for source, target in states.items()}
        outputs = model.real(outputs)
        for name, values in heard.items():
            values.append(np.asarray(outputs[name]).reshape(-1))
    return {name: np.stack(values)[None] for name, values in heard.items()}


def _count(sound: Mapping[str, Any], key: str, default: Optional[int]) -> int:
    value = sound.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < (key != "context") or value > _LONGEST:
        raise UsageError(f"the result's entry 'sound' must hold {key!r} as a number of samples, got {value!r}")
    return value


def _side_inputs(
    model: Net, sound: Mapping[str, Any], states: Mapping[str, str]
) -> Tuple[Dict[str, Array], Dict[str, Array]]:
    """The inputs that stay the same, and the states at the start, which are zeros."""
    infos = {info.name: info for info in model.pair.inputs}
    fixed, carried = {}, {}
    for target in states.values():
        if target not in infos:
            raise UsageError(f"the result's entry 'sound' names the state {target!r}, which is no input of the net")
        carried[target] = infos[target].example()
    if sound.get("rate_input") in infos:
        info = infos[sound["rate_input"]]
        fixed[info.name] = np.full([1] * len(info.shape or ()), int(sound["rate"]), info.dtype or "int64")
    return fixed, carried


def _shaped(model: Net, name: str, samples: Array) -> Array:
    """Samples in the shape and dtype of the input."""
    info = next((info for info in model.pair.inputs if info.name == name), None)
    if info is None:
        raise UsageError(f"the result's entry 'sound' names the input {name!r}, which the net does not have")
    dtype, sound = np.dtype(info.dtype or "float32"), model.entry["sound"]
    if "features" in sound:
        if model.decoder.features is None or not isinstance(sound["features"], dict):
            raise UsageError(f"the decoder {model.entry['decoder']!r} makes no features of sounds")
        return _featured(model, info, model.decoder.features(samples, int(sound["rate"]), sound["features"]), dtype)
    if dtype.kind == "i":
        limit = np.iinfo(dtype).max
        samples = np.clip(np.rint(samples * limit), -limit - 1, limit)
    shape = [1] * len(info.shape if info.shape is not None else (1, 1))
    long = [at for at, size in enumerate(info.shape or (1, None)) if size != 1]
    shape[long[-1] if long else -1] = -1
    return samples.astype(dtype).reshape(shape)


def _featured(model: Net, info: TensorInfo, features: Array, dtype: np.dtype[Any]) -> Array:
    """Features in the shape and dtype of the input. UsageError if they do not fit it."""
    shape = [size if isinstance(size, int) else 1 for size in info.shape or features.shape]
    if int(np.prod(shape)) != features.size:
        raise UsageError(f"input {info.name!r} {info.shape_text()} does not take {features.shape} features")
    values = features.reshape(shape)
    if dtype.kind in "iu":
        scale = (model.pair.meta.get("quantization") or {}).get(info.name) or {"scale": 1.0, "zero_point": 0}
        limits = np.iinfo(dtype)
        values = np.clip(np.rint(values / scale["scale"] + scale["zero_point"]), limits.min, limits.max)
    return values.astype(dtype)
