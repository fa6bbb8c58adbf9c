"""Instructions on emulated ARM, compared with onnxruntime and, on 32 bits, tflite-runtime."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import List

from armnet.console import note
from device_tests.host.counting import budgets
from device_tests.host.counting.operator_counts import OTHER_RUNTIMES, count_other_runtime
from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.machine import emulated
from device_tests.host.networks.known import build
from runtime_arm.errors import ArmnetError
from scripts.benchmarks.in_turns import NETWORKS
from scripts.benchmarks.part import Options, Part, Row, number, word

MACHINES = (("arm64", OTHER_RUNTIMES[".onnx"]), ("armhf", OTHER_RUNTIMES[".tflite"]))


def measure(options: Options) -> List[Row]:
    rows: List[Row] = []
    for architecture, other in MACHINES:
        for network in options.networks or NETWORKS:
            note(f"counting {network} on {architecture}")
            try:
                rows.append(_count(architecture, network, other))
            except (ArmnetError, EmulationUnavailable, subprocess.TimeoutExpired) as error:
                rows.append({"network": network, "machine": architecture, "other": other, "refused": str(error)[:160]})
    return rows


def _count(architecture: str, network: str, other: str) -> Row:
    machine = emulated(architecture)
    with tempfile.TemporaryDirectory() as name:
        model = Path(name, f"{network}.onnx")
        model.write_bytes(build(network).SerializeToString())
        ours = budgets.count_network(machine, model, Path(name)).network.instructions
        theirs = count_other_runtime(machine, budgets.model_for_runtime(model, other, Path(name))).instructions
    return {
        "network": network,
        "machine": machine.name,
        "other": other,
        "armnet_instructions": ours,
        "other_instructions": theirs,
        "ratio": ours / theirs,
    }


PART = Part(
    "Instructions on emulated ARM",
    measure,
    {
        "network": word("network"),
        "machine": word("machine"),
        "beside": word("other"),
        "armnet M": number("armnet_instructions", "{:.1f}", 1e-6),
        "other M": number("other_instructions", "{:.1f}", 1e-6),
        "ratio": number("ratio"),
        "": word("refused"),
    },
    names=3,
    remark="Millions of instructions per inference, with one thread.",
)
