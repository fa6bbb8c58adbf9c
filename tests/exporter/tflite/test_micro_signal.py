"""TensorFlow Lite Micro's signal operators in files: options, and what is kept from run to run, in plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import pytest

from exporter import export
from optimize import optimize
from runtime_arm import Predictor
from runtime_arm.errors import ExportError
from tests.exporter.tflite.test_mediapipe import options
from tests.support.tflite_models import Model

RNG = np.random.default_rng(5)


def samples(*shape: int) -> Any:
    return RNG.integers(-30000, 30000, shape).astype(np.int16)


def net(
    folder: Path, name: str, shape: Sequence[int], outputs: Sequence[str], given: Dict[str, Any], dtype: str
) -> Any:
    model = Model()
    x = model.input("x", shape, dtype)
    made = [model.tensor(f"y{index}", dtype=kind) for index, kind in enumerate(outputs)]
    model.operator("CUSTOM", [x], made, custom=name, custom_options=options(**given))
    (folder / "net.tflite").write_bytes(model.to_bytes(made))
    return export(folder / "net.tflite")


def assert_runs(pair: Any, runs: List[Any], wanted: Iterator[Tuple[Any, ...]]) -> None:
    """The plain and the optimised pair give these outputs, run after run."""
    with Predictor(pair) as plain, Predictor(optimize(pair)) as optimised:
        for x, expected in zip(runs, wanted):
            for predictor in (plain, optimised):
                for result, value in zip(predictor.run([x]).values(), expected):
                    np.testing.assert_array_equal(result, value)
                    assert result.shape == np.shape(value)


def framed(runs: List[Any], size: int, step: int, prefill: bool) -> Iterator[Tuple[Any, bool]]:
    """A list of samples for each signal, from whose front frames are taken."""
    buffers = [[0] * (size - step if prefill else 0) for _ in range(2)]
    for x in runs:
        valid, y = True, np.zeros((2, x.shape[1] // step, size), np.int16)
        for signal, buffer in enumerate(buffers):
            for frame in range(y.shape[1]):
                buffer += x[signal, frame * step : (frame + 1) * step].tolist()
                if len(buffer) < size:
                    valid = False
                    continue
                y[signal, frame] = buffer[:size]
                del buffer[:step]
        yield y, valid


@pytest.mark.parametrize("prefill", [False, True])
@pytest.mark.parametrize(("size", "step"), [(4, 4), (7, 4), (10, 4), (6, 2)])
def test_framer(tmp_path: Path, size: int, step: int, prefill: bool) -> None:
    given = {"frame_size": size, "frame_step": step, "prefill": int(prefill)}
    runs = [samples(2, 8) for _ in range(4)]
    pair = net(tmp_path, "SignalFramer", (2, 8), ["int16", "bool"], given, "int16")
    assert_runs(pair, runs, framed(runs, size, step, prefill))


def stacked(runs: List[Any], left: int, right: int, step: int) -> Iterator[Tuple[Any, bool]]:
    buffer: List[Any] = []
    for index, x in enumerate(runs):
        buffer += [x] * (1 if index else left + 1)
        if len(buffer) < left + right + 1:
            yield np.zeros((left + right + 1) * x.size, np.int16), False
            continue
        yield np.concatenate(buffer[: left + right + 1]), True
        del buffer[:step]


@pytest.mark.parametrize(("left", "right", "step"), [(0, 0, 1), (1, 1, 1), (3, 0, 2), (1, 2, 3)])
def test_stacker(tmp_path: Path, left: int, right: int, step: int) -> None:
    given = {"stacker_left_context": left, "stacker_right_context": right, "stacker_step": step, "num_channels": 3}
    runs = [samples(3) for _ in range(8)]
    pair = net(tmp_path, "SignalStacker", (3,), ["int16", "bool"], given, "int16")
    assert_runs(pair, runs, stacked(runs, left, right, step))


@pytest.mark.parametrize("length", [0, 3, 8, 11])
def test_delay(tmp_path: Path, length: int) -> None:
    runs = [samples(2, 8) for _ in range(4)]
    late = np.concatenate([np.zeros((2, length), np.int16), *runs], axis=1)
    pair = net(tmp_path, "SignalDelay", (2, 8), ["int16"], {"delay_length": length}, "int16")
    assert_runs(pair, runs, ((late[:, 8 * n : 8 * n + 8],) for n in range(4)))


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("step", [2, 4, 5])
def test_overlap_add(tmp_path: Path, step: int, dtype: str) -> None:
    def added() -> Iterator[Tuple[Any]]:
        buffer = np.zeros((2, 5), dtype)
        for x in runs:
            y = []
            for frame in range(3):
                total = buffer.astype(np.int64 if dtype == "int16" else dtype) + x[:, frame]
                buffer = np.clip(total, -32768, 32767).astype(dtype) if dtype == "int16" else total
                y.append(buffer[:, :step])
                buffer = np.concatenate([buffer[:, step:], np.zeros((2, step), dtype)], axis=1)
            yield (np.concatenate(y, axis=1),)

    runs = [samples(2, 3, 5).astype(dtype) for _ in range(3)]
    pair = net(tmp_path, "SignalOverlapAdd", (2, 3, 5), [dtype], {"frame_step": step}, dtype)
    assert_runs(pair, runs, added())


def front_end(folder: Path) -> Any:
    """The chain of the micro_speech example: window, scaling, spectrum, bands, noise, gain and logarithm."""
    model, rng, channels, length = Model(), np.random.default_rng(2), 4, 32

    def custom(name: str, inputs: List[int], kinds: Sequence[str], **given: Any) -> List[int]:
        made = [model.tensor(f"{name}{index}", dtype=kind) for index, kind in enumerate(kinds)]
        model.operator("CUSTOM", inputs, made, custom=name, custom_options=options(**given) if given else b"")
        return made

    x = model.input("x", (24,), "int16")
    window = np.floor(4096 * (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(24) + 0.5) / 24)) + 0.5).astype(np.int16)
    (windowed,) = custom("SignalWindow", [x, model.constant("window", window)], ["int16"], shift=12)
    scaled, bits = custom("SignalFftAutoScale", [windowed], ["int16", "int32"])
    (spectrum,) = custom("SignalRfft", [scaled], ["int16"], fft_length=length, T=7)
    (energy,) = custom("SignalEnergy", [spectrum], ["uint32"], start_index=1, end_index=15)
    starts = np.arange(channels + 1) * 3
    tables = [rng.integers(0, 4096, 15), rng.integers(0, 4096, 15), starts, starts, np.full(channels + 1, 3)]
    constants = [model.constant(f"t{n}", table.astype(np.int16)) for n, table in enumerate(tables)]
    (bands,) = custom("SignalFilterBank", [energy, *constants], ["uint64"], num_channels=channels)
    (roots,) = custom("SignalFilterBankSquareRoot", [bands, bits], ["uint32"])
    clean, noise = custom(
        "SignalFilterBankSpectralSubtraction",
        [roots],
        ["uint32", "uint32"],
        smoothing=410,
        one_minus_smoothing=15974,
        alternate_smoothing=983,
        alternate_one_minus_smoothing=15401,
        smoothing_bits=10,
        spectral_subtraction_bits=14,
        min_signal_remaining=819,
        clamping=0,
        num_channels=channels,
    )
    gains = model.constant("gains", rng.integers(0, 9000, 125).astype(np.int16))
    (gained,) = custom("SignalPCAN", [clean, noise, gains], ["uint32"], snr_shift=6)
    (y,) = custom("SignalFilterBankLog", [gained], ["int16"], input_correction_bits=3, output_scale=1600)
    (folder / "net.tflite").write_bytes(model.to_bytes([y, noise]))
    return export(folder / "net.tflite")


def test_a_front_end_keeps_its_estimate_of_the_noise(tmp_path: Path) -> None:
    pair, runs = front_end(tmp_path), [samples(24) for _ in range(4)]
    with Predictor(pair) as plain, Predictor(optimize(pair)) as optimised:
        found = [plain.run([x]) for x in [*runs, runs[0]]]
        for x, wanted in zip([*runs, runs[0]], found):
            for one, other in zip(optimised.run([x]).values(), wanted.values()):
                np.testing.assert_array_equal(one, other)
    noises = [list(one.values())[1] for one in found]
    assert noises[0].dtype == np.uint32
    assert not np.array_equal(noises[0], noises[-1])  # the same samples, but not the same past


@pytest.mark.parametrize(
    ("name", "shape", "given", "problem"),
    [
        ("SignalFramer", (2, 8), {"frame_size": 4, "frame_step": 2}, "lack 'prefill'"),
        ("SignalFramer", (2, 8), {"frame_size": 0, "frame_step": 2, "prefill": 0}, "are not possible"),
        ("SignalFramer", (2, 7), {"frame_size": 4, "frame_step": 2, "prefill": 0}, "made of steps of 2"),
        ("SignalDelay", (2, 8), {"delay_length": 1 << 30}, "is not possible"),
        ("SignalDelay", (2, 8), {"delay_length": -1}, "is not possible"),
        ("SignalOverlapAdd", (2, 8), {"frame_step": 9}, "frames of 9 or more"),
    ],
)
def test_refusals(tmp_path: Path, name: str, shape: Any, given: Any, problem: str) -> None:
    with pytest.raises(ExportError, match=problem):
        net(tmp_path, name, shape, ["int16", "bool"][: 2 if name == "SignalFramer" else 1], given, "int16")
