"""The same kernels as CUDA C++, compiled for Jetsons without a GPU; run where there is one."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Tuple

import numpy as np
import pytest

from device_tests.host.emulation.cache import EmulationUnavailable
from device_tests.host.emulation.nvrtc import nvrtc
from device_tests.suite.tolerance import assert_close
from runtime_arm.errors import DeviceError
from runtime_arm.gpu.cuda import cudnn
from runtime_arm.gpu.cuda.compiler import VARIABLE, architectures, compiled, library
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.devices import open_device
from runtime_arm.gpu.kernels import Define, source_of
from runtime_arm.gpu.programs import Programs
from tests.runtime_arm.gpu.test_cudnn import CASES, with_cudnn
from tests.runtime_arm.gpu.test_kernels import check

ORIN = 87
EVERYTHING: Dict[str, Define] = {"RESIDUAL": 1, "OPERAND": 1, "ACTIVATE1(x, p)": "larger(x, p)"}
WINDOW: Dict[str, Define] = {"KH": 3, "KW": 3, "SY": 1, "SX": 1, "DY": 1, "DX": 1}
FILES: Dict[str, Dict[str, Define]] = {
    "convolution": {**WINDOW, **EVERYTHING},
    "winograd": EVERYTHING,
    "im2col": {"TILE": 8, **EVERYTHING},
    "pool": {"MAXIMUM": 0, "GROUP": 64},
    "elementwise": {"COMBINE1(a, b)": "((a) / (b))", "ACTIVATE1(x, p)": "tanh(x)"},
    "rows": {"GROUP": 64, "LOGARITHM": 1, **EVERYTHING},
    "move": {},
}


@pytest.fixture(scope="module", autouse=True)
def _nvrtc() -> Iterator[None]:
    """The compiler of NVIDIA's wheel, unless ARMNET_NVRTC names another."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if VARIABLE not in os.environ:
            try:
                monkeypatch.setenv(VARIABLE, str(nvrtc()))
            except EmulationUnavailable as error:
                pytest.skip(f"no NVRTC here: {error}")
        library.cache_clear()
        yield
    library.cache_clear()


@pytest.mark.parametrize("capability", [53, 72, ORIN, 90])
def test_all_kernels_compile_for_jetsons_and_newer_gpus(capability: int) -> None:
    if capability not in architectures():
        pytest.skip(f"this NVRTC does not compile for {capability}: it knows {architectures()}")
    for name, defines in FILES.items():
        for half in (0, 1) if capability == ORIN else (0,):
            assert compiled(source_of(name, {**defines, "HALF": half}), capability)[:4] == b"\x7fELF"


def test_a_capability_that_the_compiler_does_not_know_gets_ptx() -> None:
    newest = max(architectures())
    assert b".target" in compiled(source_of("move", {"HALF": 0}), newest + 50)


def test_the_compilers_words_are_kept() -> None:
    with pytest.raises(DeviceError, match="nonsense"):
        compiled("nonsense;", 87)


@pytest.fixture(scope="module")
def gpu() -> Tuple[Device, Programs]:
    try:
        return open_device("cuda:0")
    except DeviceError as error:
        pytest.skip(f"no CUDA here: {error}")


def test_a_gpu_multiplies(gpu: Tuple[Device, Programs]) -> None:
    device, programs = gpu
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    y = np.full_like(x, np.nan)
    here, there = device.allocate(x.nbytes), device.allocate(x.nbytes)
    device.upload(here, x)
    program = programs.get("elementwise", {"HALF": 0, "ACTIVATE1(x, p)": "tanh(x)"})
    device.prepare(program, "unary", (1000, 1, 1), (64, 1, 1), [here, there, 1000, 0, 1, 1]).enqueue()
    device.download(there, y)
    assert_close(y, np.tanh(x), what="tanh")


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_by_nvidias_own_cudnn_is_the_references(gpu: Tuple[Device, Programs], name: str) -> None:
    try:
        cudnn.library()
    except DeviceError as error:
        pytest.skip(f"no cuDNN here: {error}")
    names = []

    class Watched:
        """The GPU, which notes the convolutions that cuDNN computes."""

        def __getattr__(self, name: str) -> Any:
            return getattr(gpu[0], name)

        def convolution(self, *arguments: Any) -> Any:
            launch = gpu[0].convolution(*arguments)
            names.append(launch and launch.name)
            return launch

    check((Watched(), gpu[1]), with_cudnn(CASES[name]), half=False)  # type: ignore[arg-type]
    assert names == ["cudnnConvolutionForward"]
