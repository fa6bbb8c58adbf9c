"""CUDA's compiler NVRTC without a GPU, unpacked from NVIDIA's wheel into the cache and not installed."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from device_tests.host.emulation.cache import EmulationUnavailable, built, locked, progress
from device_tests.host.emulation.tools import run_tool
from runtime_arm.machine.cache import cache_root

WHEEL = "nvidia-cuda-nvrtc-cu12==12.6.85"  # CUDA 13 no longer compiles for Jetson Nano and Xavier


def nvrtc() -> Path:
    """The library, ``libnvrtc.so.12``; EmulationUnavailable if it is not available."""
    cache = cache_root()
    with locked(cache):
        root = built(cache / "nvrtc", [WHEEL], _unpack)
    return root / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"


def _unpack(folder: Path) -> None:
    progress(f"downloading {WHEEL}")
    run_tool([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), WHEEL])
    (wheel,) = folder.glob("*.whl")
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as error:
        raise EmulationUnavailable(f"{wheel.name} is damaged: {error}") from error
    wheel.unlink()
