"""TensorFlow Lite Micro's signal operators; their options are maps. What they keep from run to run are states."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

from exporter.tflite.flexbuffer import read_map
from exporter.tflite.node import Node
from exporter.tflite.rules import custom_type, rule
from runtime_arm.errors import ExportError
from runtime_arm.netdef import Array
from runtime_arm.operators.audio.micro_buffers import kept_by_framer

_MOST_KEPT = 1 << 26  # elements, which the file need not contain
_PLAIN: Dict[str, List[str]] = {
    "SignalWindow": ["shift"],
    "SignalFftAutoScale": [],
    "SignalRfft": ["fft_length"],
    "SignalIrfft": ["fft_length"],
    "SignalEnergy": ["start_index", "end_index"],
    "SignalFilterBank": ["num_channels"],
    "SignalFilterBankSquareRoot": [],
    "SignalPCAN": ["snr_shift"],
    "SignalFilterBankLog": ["input_correction_bits", "output_scale"],
}
_SUBTRACTION = (
    "smoothing",
    "one_minus_smoothing",
    "alternate_smoothing",
    "alternate_one_minus_smoothing",
    "smoothing_bits",
    "spectral_subtraction_bits",
    "min_signal_remaining",
    "clamping",
)


def _options(node: Node, *names: str) -> Dict[str, int]:
    """These options, all of which are integers."""
    given = read_map(node.operation.custom_options) if names else {}
    missing = [name for name in names if name not in given]
    if missing:
        raise ExportError(f"its options lack {missing[0]!r}")
    return {name: int(given[name]) for name in names}


@rule(*(custom_type(name) for name in _PLAIN))
def plain(node: Node) -> None:
    """Operators that keep nothing."""
    name = node.operation.custom
    outputs = [node.output(index) for index in range(node.output_count)]
    node.add(name, node.inputs(), outputs, domain="tflite", **_options(node, *_PLAIN[name]))


def _with_states(node: Node, type: str, initial: Dict[str, Array], **arguments: Any) -> None:
    """The operator with its states after its inputs, and their new values after its outputs."""
    for stem, value in initial.items():
        if value.size > _MOST_KEPT:
            raise ExportError(f"{stem} of {value.size} elements is too large")
    states = [node.net.state(node.between(stem), value) for stem, value in initial.items()]
    outputs = [node.output(index) for index in range(node.output_count)]
    updated = [node.between(f"new_{stem}") for stem in initial]
    node.add(type, [node.input(0), *states], [*outputs, *updated], domain="tflite", **arguments)
    for state, blob in zip(states, updated):
        node.net.keep(state, blob)


@rule(custom_type("SignalFilterBankSpectralSubtraction"))
def spectral_subtraction(node: Node) -> None:
    """The second output is the estimate of the noise, which is kept."""
    arguments, (channels,) = _options(node, *_SUBTRACTION), node.known_dims(0, rank=1)
    state = node.net.state(node.between("noise"), np.zeros(channels, np.uint32))
    noise = node.output(1)
    names = [node.input(0), state]
    node.add("SignalSpectralSubtraction", names, [node.output(0), noise], domain="tflite", **arguments)
    node.net.keep(state, noise)


@rule(custom_type("SignalFramer"))
def framer(node: Node) -> None:
    given = _options(node, "frame_size", "frame_step", "prefill")
    size, step = given["frame_size"], given["frame_step"]
    dims = node.known_dims(0, least=1)
    if min(size, step) < 1 or 0 in dims:
        raise ExportError(f"frames of {size} every {step} samples of a signal of {dims} are not possible")
    kept = np.zeros((int(np.prod(dims[:-1])), kept_by_framer(size, step)), np.int16)
    count = np.array(max(size - step, 0) if given["prefill"] else 0, np.int64)
    _with_states(node, "SignalFramer", {"kept": kept, "count": count}, frame_size=size, frame_step=step)


@rule(custom_type("SignalStacker"))
def stacker(node: Node) -> None:
    names = ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    channels, left, right, step = _options(node, *names).values()
    if min(channels, step) < 1 or min(left, right) < 0 or channels * (1 + left + right) > _MOST_KEPT:
        raise ExportError(f"contexts of {left} and {right} frames of {channels} numbers are not possible")
    kept, count = np.zeros((1 + left + right, channels), np.int16), np.array(-1, np.int64)
    arguments = {"left_context": left, "right_context": right, "step": step}
    _with_states(node, "SignalStacker", {"kept": kept, "count": count}, **arguments)


@rule(custom_type("SignalDelay"))
def delay(node: Node) -> None:
    (length,), dims = _options(node, "delay_length").values(), node.known_dims(0, least=1)
    if length < 0 or length * max(int(np.prod(dims[:-1])), 1) > _MOST_KEPT:
        raise ExportError(f"a delay of {length} samples is not possible")
    _with_states(node, "SignalDelay", {"kept": np.zeros((int(np.prod(dims[:-1])), length), np.int16)})


@rule(custom_type("SignalOverlapAdd"))
def overlap_add(node: Node) -> None:
    given, dims = _options(node, "frame_step"), node.known_dims(0, least=2)
    kept = np.zeros((int(np.prod(dims[:-2])), dims[-1]), node.dtype(0))
    _with_states(node, "SignalOverlapAdd", {"kept": kept}, **given)
