"""What does not fit into memory is named in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

from exporter import export
from optimize import optimize, quantize
from runtime_arm.errors import ResourceError
from runtime_arm.execution import executor
from runtime_arm.execution.predictor import Predictor
from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair

pytest.importorskip("resource", reason="this system limits no memory")
ROOT = Path(__file__).resolve().parents[3]
LEAVING = """
import resource
import numpy as np
from runtime_arm import Pair, Predictor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.errors import ResourceError
from runtime_arm.pair.metadata import TensorInfo

net = NetDef(op=(OperatorDef.of("Relu", ["x"], ["y"]),), external_input=("x",), external_output=("y",))
predictor = Predictor(Pair(NetDef(), net, (TensorInfo("x", (1 << 25,), "float32"),)), threads=1)
x = np.zeros(1 << 25, np.float32)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {nbytes}, resource.RLIM_INFINITY))
try:
    print(predictor.run([x])["y"].shape)
except ResourceError as error:
    print(error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not say what a process uses")
@pytest.mark.parametrize(
    ("nbytes", "told"),
    [
        (1 << 28, "(33554432,)"),
        (1 << 26, "a copy of blob 'y' of shape (33554432,) needs 134,217,728 bytes, which are not available"),
    ],
)
def test_an_output_that_cannot_be_copied_is_named(nbytes: int, told: str) -> None:
    program = LEAVING.format(nbytes=nbytes)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == told, done.stderr


def of_relu() -> Pair:
    net = NetDef.from_text('net "": x -> y\n Relu(x) -> y')
    return Pair(NetDef(), net, (TensorInfo("x", (3,), "float32"),))


@pytest.mark.parametrize(
    ("place", "call", "purpose"),
    [
        ("exporter.format_of", lambda: export(b"some bytes"), "export"),
        ("optimize.Program.of", lambda: optimize(of_relu()), "optimize"),
        ("optimize.quantization.pipeline.weight_builder", lambda: quantize(of_relu()), "quantize"),
        (f"{executor.__name__}.Segment", lambda: Predictor(of_relu(), threads=1), "planning"),
    ],
)
def test_what_ran_out_of_memory_is_said(
    place: str, call: Callable[[], Any], purpose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*given: Any, **options: Any) -> None:
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(place, exhausted)
    with pytest.raises(ResourceError, match=f"^{purpose}: memory ran out: Unable to allocate 9 GiB$"):
        call()
