"""Describes this machine: CPU, caches, memory, Python, NumPy and its BLAS; and its state: temperature and throttling.

    python -m runtime_arm.machine.identity           # the identity as JSON; it accompanies results measured on a device

It needs only NumPy. What the system does not report is None or left out.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np

from runtime_arm.machine import blas
from runtime_arm.machine.caches import caches
from runtime_arm.machine.memory import memory_limit
from runtime_arm.version import VERSION

ROOT = Path("/")

# /proc/cpuinfo's "CPU implementer" and "CPU part"; Arm's own, from the MIDR_EL1 of each core's reference manual.
_ARM_CORES = {
    "0xb76": "ARM1176",
    "0xc05": "Cortex-A5",
    "0xc07": "Cortex-A7",
    "0xc08": "Cortex-A8",
    "0xc09": "Cortex-A9",
    "0xc0d": "Cortex-A17",
    "0xc0f": "Cortex-A15",
    "0xd01": "Cortex-A32",
    "0xd03": "Cortex-A53",
    "0xd04": "Cortex-A35",
    "0xd05": "Cortex-A55",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd09": "Cortex-A73",
    "0xd0a": "Cortex-A75",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse-N1",
    "0xd0d": "Cortex-A77",
    "0xd40": "Neoverse-V1",
    "0xd41": "Cortex-A78",
    "0xd44": "Cortex-X1",
    "0xd46": "Cortex-A510",
    "0xd47": "Cortex-A710",
    "0xd48": "Cortex-X2",
    "0xd49": "Neoverse-N2",
    "0xd4d": "Cortex-A715",
    "0xd4e": "Cortex-X3",
    "0xd4f": "Neoverse-V2",
    "0xd80": "Cortex-A520",
    "0xd81": "Cortex-A720",
    "0xd82": "Cortex-X4",
}
_IMPLEMENTERS = {"0x41": "Arm", "0x48": "HiSilicon", "0x51": "Qualcomm", "0x53": "Samsung", "0x61": "Apple"}
_BLAS_LIBRARIES = re.compile(r"/(lib)?(openblas|mkl|blis|atlas|satlas|tatlas|cblas|blas|armpl)[^/]*$")

# What a Raspberry Pi's firmware reports; the bit 16 places higher says that it has happened since the start.
_THROTTLED = {0: "under-voltage", 1: "frequency capped", 2: "throttled", 3: "soft temperature limit"}


def identity(root: Path = ROOT) -> Dict[str, Any]:
    """The properties on which measurements depend; they are the same from run to run on one machine."""
    fields = _cpu_fields(root)
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "model": _text(root / "proc/device-tree/model").strip("\0") or None,
        "cpu": _cpu_name(fields) or platform.processor() or platform.machine(),
        "features": _features(fields),
        "cores": os.cpu_count() or 1,
        "caches": _caches(root),
        "memory_nbytes": _memory(root, "MemTotal") or memory_limit(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "protobuf": _protobuf(),
        "armnet": VERSION,
    }


def condition(root: Path = ROOT) -> Dict[str, Any]:
    """The state of the moment: free memory in bytes, temperatures in degrees Celsius, why the CPU is slowed down."""
    zones = [zone for zone in sorted(root.glob("sys/class/thermal/thermal_zone*")) if _text(zone / "temp")]
    return {
        "available_nbytes": _memory(root, "MemAvailable"),
        "celsius": {_text(zone / "type") or zone.name: _integer(zone / "temp") / 1000 for zone in zones},
        "slowed": [*_firmware_throttling(root), *_capped_frequencies(root)],
    }


def _cpu_fields(root: Path) -> List[Dict[str, str]]:
    """The fields of /proc/cpuinfo, a dictionary for each core."""
    cores: List[Dict[str, str]] = []
    for block in _text(root / "proc/cpuinfo").split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
        core = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in core:
            cores.append(core)
    return cores


def _cpu_name(cores: List[Dict[str, str]]) -> str:
    """``4 x Cortex-A72``; different kinds of cores are joined by a plus sign."""
    kinds = Counter(filter(None, map(_core_name, cores)))
    return " + ".join(f"{count} x {name}" for name, count in kinds.items())


def _core_name(core: Dict[str, str]) -> str:
    implementer, part = core.get("CPU implementer", ""), core.get("CPU part", "")
    if implementer == "0x41" and part in _ARM_CORES:
        return _ARM_CORES[part]
    if implementer:
        return f"{_IMPLEMENTERS.get(implementer, implementer)} {part}"
    return core.get("model name", "")


def _features(cores: List[Dict[str, str]]) -> List[str]:
    """The features that all cores have, by the kernel's names."""
    sets = [set(core.get("Features", core.get("flags", "")).split()) for core in cores]
    return sorted(set.intersection(*sets)) if sets else []


def _caches(root: Path) -> Dict[str, int]:
    """The sizes in bytes of the first core's caches, by name ("L1 data", "L2")."""
    return {
        f"L{cache.level}" + ("" if cache.kind == "unified" else f" {cache.kind}"): cache.nbytes
        for cache in caches(str(root))
        if cache.kind != "instruction"
    }


def _memory(root: Path, field: str) -> Optional[int]:
    found = re.search(rf"(?m)^{field}:\s+(\d+) kB", _text(root / "proc/meminfo"))
    return int(found.group(1)) * 1024 if found else None


def _blas() -> Optional[Dict[str, Any]]:
    """The BLAS with which NumPy multiplies, None if the process has none; only OpenBLAS describes itself."""
    openblas = blas.loaded()
    if openblas is not None:
        return {"name": "OpenBLAS", "core": openblas.core, "config": openblas.config.strip(), "path": openblas.path}
    if not os.path.exists("/proc/self/maps"):
        return {"name": "unknown: this system does not list libraries", "core": "", "config": "", "path": ""}
    paths = [line.split(maxsplit=5)[5] for line in _text(Path("/proc/self/maps")).splitlines() if "/" in line]
    for path in paths:
        if _BLAS_LIBRARIES.search(path):
            return {"name": Path(path).name, "core": "", "config": "", "path": path}
    return None


def _protobuf() -> Optional[str]:
    try:
        return str(import_module("google.protobuf").__version__)
    except ImportError:
        return None


def _firmware_throttling(root: Path) -> List[str]:
    text = _text(root / "sys/devices/platform/soc/soc:firmware/get_throttled")
    bits = int(text, 16) if re.fullmatch(r"(0x)?[0-9a-fA-F]+", text) else 0
    now = [what for bit, what in _THROTTLED.items() if bits >> bit & 1]
    ever = [what for bit, what in _THROTTLED.items() if bits >> (bit + 16) & 1]
    return [*now, *(f"{what} since the start" for what in ever if what not in now)]


def _capped_frequencies(root: Path) -> List[str]:
    slowed = []
    for policy in sorted(root.glob("sys/devices/system/cpu/cpufreq/policy*")):
        allowed, most = _integer(policy / "scaling_max_freq"), _integer(policy / "cpuinfo_max_freq")
        if 0 < allowed < most:
            slowed.append(f"{policy.name} capped at {allowed // 1000} of {most // 1000} MHz")
    return slowed


def _text(path: Path) -> str:
    """The content of a file of the kernel, "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _integer(path: Path) -> int:
    text = _text(path)
    return int(text) if re.fullmatch(r"-?\d+", text) else 0


if __name__ == "__main__":
    print(json.dumps(identity()))
