"""The description of a machine, read from files as Linux has them on a Raspberry Pi and on phones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict, Optional

import numpy as np
import pytest

from runtime_arm.machine import identity as machine
from runtime_arm.machine.caches import block_nbytes

CPUINFO = """\
processor\t: {number}
Features\t: fp asimd evtstrm {extra}
CPU implementer\t: {implementer}
CPU part\t: {part}

"""
CACHE = "sys/devices/system/cpu/cpu0/cache"
FREQUENCY = "sys/devices/system/cpu/cpufreq/policy0"
THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"


def cores(*kinds: str) -> str:
    """/proc/cpuinfo of cores, each "implementer part features"."""
    blocks = []
    for number, kind in enumerate(kinds):
        implementer, part, *extra = kind.split(maxsplit=2)
        blocks.append(CPUINFO.format(number=number, implementer=implementer, part=part, extra="".join(extra)))
    return "".join(blocks)


def root_with(folder: Path, files: Dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_raspberry_pi(tmp_path: Path) -> None:
    identity = machine.identity(
        root_with(
            tmp_path,
            {
                "proc/cpuinfo": cores(*["0x41 0xd08"] * 4),
                "proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0",
                "proc/meminfo": "MemTotal:        3884408 kB\nMemAvailable:    3000000 kB\n",
                f"{CACHE}/index0/type": "Data\n",
                f"{CACHE}/index0/level": "1\n",
                f"{CACHE}/index0/size": "32K\n",
                f"{CACHE}/index1/type": "Instruction\n",
                f"{CACHE}/index1/level": "1\n",
                f"{CACHE}/index1/size": "48K\n",
                f"{CACHE}/index2/type": "Unified\n",
                f"{CACHE}/index2/level": "2\n",
                f"{CACHE}/index2/size": "1024K\n",
            },
        )
    )
    assert identity["model"] == "Raspberry Pi 4 Model B Rev 1.4"
    assert identity["cpu"] == "4 x Cortex-A72"
    assert identity["caches"] == {"L1 data": 32768, "L2": 1 << 20}
    assert identity["memory_nbytes"] == 3884408 * 1024
    assert identity["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("size", "block"),
    [
        ("1024K", 1 << 19),
        ("2048K", 1 << 20),
        ("512K", 1 << 18),
        ("16384K", 1 << 20),
        ("128K", 1 << 18),
        ("", 1 << 20),
        ("-1K", 1 << 20),
        ("many", 1 << 20),
        (None, 1 << 20),
    ],
)
def test_a_block_takes_half_of_the_second_level_cache(tmp_path: Path, size: Optional[str], block: int) -> None:
    files = {f"{CACHE}/index0/type": "Unified\n", f"{CACHE}/index0/level": "2\n", f"{CACHE}/index0/size": f"{size}\n"}
    assert block_nbytes(str(root_with(tmp_path, {} if size is None else files))) == block


def test_a_phone_with_cores_of_several_kinds(tmp_path: Path) -> None:
    kinds = ["0x41 0xd05 asimddp", "0x41 0xd05 asimddp", "0x41 0xd0d asimddp i8mm", "0x51 0x804 asimddp"]
    identity = machine.identity(root_with(tmp_path, {"proc/cpuinfo": cores(*kinds)}))
    assert identity["cpu"] == "2 x Cortex-A55 + 1 x Cortex-A77 + 1 x Qualcomm 0x804"
    assert "asimddp" in identity["features"]
    assert "i8mm" not in identity["features"]


def test_a_system_that_reports_nothing(tmp_path: Path) -> None:
    identity, condition = machine.identity(tmp_path), machine.condition(tmp_path)
    assert (identity["model"], identity["features"], identity["caches"]) == (None, [], {})
    assert identity["cpu"]
    assert identity["memory_nbytes"] > 0
    assert condition == {"available_nbytes": None, "celsius": {}, "slowed": []}
    json.dumps([identity, condition])


def test_heat_and_free_memory(tmp_path: Path) -> None:
    condition = machine.condition(
        root_with(
            tmp_path,
            {
                "proc/meminfo": "MemTotal:        100 kB\nMemAvailable:    60 kB\n",
                "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
                "sys/class/thermal/thermal_zone0/temp": "61843\n",
                "sys/class/thermal/thermal_zone1/temp": "-5000\n",
                "sys/class/thermal/thermal_zone2/type": "modem\n",
            },
        )
    )
    assert condition["available_nbytes"] == 60 * 1024
    assert condition["celsius"] == {"cpu-thermal": 61.843, "thermal_zone1": -5.0}


@pytest.mark.parametrize(
    ("bits", "slowed"),
    [
        ("0", []),
        ("0x5", ["under-voltage", "throttled"]),
        ("50000", ["under-voltage since the start", "throttled since the start"]),
        ("0x50005", ["under-voltage", "throttled"]),
        ("nonsense", []),
    ],
)
def test_throttling_by_the_firmware(tmp_path: Path, bits: str, slowed: str) -> None:
    assert machine.condition(root_with(tmp_path, {THROTTLED: bits + "\n"}))["slowed"] == slowed


def test_a_capped_frequency(tmp_path: Path) -> None:
    files = {f"{FREQUENCY}/scaling_max_freq": "600000\n", f"{FREQUENCY}/cpuinfo_max_freq": "1500000\n"}
    assert machine.condition(root_with(tmp_path, files))["slowed"] == ["policy0 capped at 600 of 1500 MHz"]
