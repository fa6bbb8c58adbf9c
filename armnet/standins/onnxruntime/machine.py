"""onnxruntime's functions that belong to no session: what there is to run on, logging, telemetry."""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Optional

from armnet.standins.notes import WARNING, note, set_callback, set_severity
from armnet.standins.onnxruntime import __version__
from runtime_arm.version import VERSION

CPU = "CPUExecutionProvider"
_ALL = (
    "Tensorrt CUDA MIGraphX OpenVINO Dnnl VitisAI QNN Nnapi VSINPU Js CoreML Dml Rknpu WebNN WebGpu Xnnpack CANN Azure"
)


def get_available_providers() -> List[str]:
    """The execution providers that sessions can have: the processor's alone."""
    return [CPU]


def get_all_providers() -> List[str]:
    """The names of all execution providers that onnxruntime knows, in its order of preference."""
    return [*(f"{name}ExecutionProvider" for name in _ALL.split()), CPU]


def get_device() -> str:
    """What sessions run on."""
    return "CPU"


def get_version_string() -> str:
    """The version of onnxruntime whose interface this is."""
    return __version__


def get_build_info() -> str:
    """What is behind the interface."""
    return f"ORT Build Info: armnet {VERSION} in place of onnxruntime {__version__}"


def has_collective_ops() -> bool:
    """Whether operators can run on several machines together: they cannot."""
    return False


def enable_telemetry_events() -> None:
    """armnet sends no telemetry, so this is noted."""
    note("enable_telemetry_events changes nothing: armnet sends no telemetry")


def disable_telemetry_events() -> None:
    """armnet sends no telemetry, as asked."""


def set_default_logger_severity(severity: int) -> None:
    """The least severity that is logged: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal."""
    set_severity(_checked(severity))


def set_default_logger_callback(callback: Optional[Callable[..., Any]], severity: int = WARNING) -> None:
    """Tell what is logged from this severity on to ``callback(severity, category, logid, code_location, message)``, or,
    without one, to Python's logging, as before. What the callback raises is ignored."""
    if callback is not None and not callable(callback):
        raise RuntimeError(f"the callback must be a function, got {type(callback).__name__}")
    set_severity(_checked(severity))
    set_callback(callback)


def _checked(severity: Any) -> int:
    if not isinstance(severity, int):
        raise TypeError(f"the severity must be a number, got {type(severity).__name__}")
    if not 0 <= severity <= 4:
        raise RuntimeError(f"the severity must be 0 (verbose) to 4 (fatal), got {severity}")
    return severity


def set_default_logger_verbosity(level: int) -> None:
    """armnet logs no details, so a level above 0 is noted."""
    if level > 0:
        note(f"set_default_logger_verbosity({level}) changes nothing: armnet logs no details")


def set_global_thread_pool_sizes(intra_op: int, inter_op: int) -> None:
    """Sessions have threads of their own, so this is noted."""
    note("set_global_thread_pool_sizes changes nothing: every session has threads of its own")


def set_seed(seed: int) -> None:
    """Networks that draw random numbers are noted to do so without this seed."""
    note(f"set_seed({seed}) changes nothing: armnet's random operators have seeds of their own")


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None) -> None:
    """There is nothing to load before its use: armnet has no libraries."""


def print_debug_info() -> None:
    """Print what is behind the interface."""
    print(f"onnxruntime version: {__version__} (armnet {VERSION} stands in for it)\nPython {sys.version}")
