"""cuDNN's convolution without a GPU: a small C library with cuDNN's names computes it on the processor."""

from __future__ import annotations

import gc
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator, Optional, Tuple

import numpy as np
import pytest

from runtime_arm.errors import DeviceError, NoDriver
from runtime_arm.gpu.cuda import cudnn
from runtime_arm.gpu.device import Buffer, ConvolutionProblem, Device, Launch
from runtime_arm.gpu.programs import Programs
from tests.runtime_arm.gpu.test_kernels import Case, check, conv

PROBLEM = ConvolutionProblem((1, 4, 6, 7), (6, 4, 3, 3), (1, 6, 6, 7), (1, 1), (1, 1), (1, 1), 1)
CASES = {
    "3x3": conv((2, 5, 9, 11), (7, 5, 3, 3), kernel=3, pad=1),
    "no bias": conv((1, 3, 9, 8), (4, 3, 3, 3), kernel=3, stride=2, bias=False),
    "strided and dilated": conv((1, 3, 13, 12), (8, 3, 3, 2), kernels=[3, 2], strides=[2, 1], dilations=[2, 3]),
    "groups": conv((1, 6, 6, 7), (9, 2, 3, 3), kernel=3, pad=1, group=3),
    "residual": conv(
        (1, 4, 6, 7), (6, 4, 3, 3), type="FusedConv", residual=(1, 6, 6, 7), kernel=3, pad=1, activation="Relu"
    ),
    "prelu": conv((1, 4, 6, 7), (6, 4, 1, 1), type="FusedConv", operand=(6,), kernel=1, activation="PRelu"),
}
UNEVEN = conv((1, 3, 7, 6), (4, 3, 3, 3), kernel=3, pad_t=2, pad_l=0, pad_b=1, pad_r=2, bias=False)


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The library, which counts descriptors that are alive and convolutions that it computed."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    path = tmp_path_factory.mktemp("cudnn") / "libcudnn.so"
    source = Path(__file__).with_name("fake_cudnn.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(cudnn.VARIABLE, str(path))
        cudnn.library.cache_clear()
        yield cudnn.library()
    cudnn.library.cache_clear()


class WithCudnn:
    """A device that computes convolutions by cuDNN, in the processor's memory."""

    def __init__(self, device: Device):
        self._device = device
        self._cudnn = cudnn.Cudnn()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def convolution(self, problem: ConvolutionProblem, x: Buffer, w: Buffer, y: Buffer) -> Optional[Launch]:
        nbytes, run = self._cudnn.convolution(problem)
        workspace = np.empty(nbytes, np.uint8)

        def enqueue() -> None:
            given, weights, made = (np.empty(shape, np.float32) for shape in (problem.x, problem.w, problem.y))
            self._device.download(x, given)
            self._device.download(w, weights)
            run(given.ctypes.data, weights.ctypes.data, workspace.ctypes.data, made.ctypes.data)
            self._device.upload(y, made)

        return Launch("cudnnConvolutionForward", enqueue, [x, w, y])


def with_cudnn(case: Case) -> Case:
    return case._replace(op=case.op.replace(engine="DEVICE:cudnn"))


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_by_cudnn_is_the_references(opened: Tuple[Device, Programs], fake: Any, name: str) -> None:
    before = fake.fake_runs()
    check((WithCudnn(opened[0]), opened[1]), with_cudnn(CASES[name]), half=False)  # type: ignore[arg-type]
    assert fake.fake_runs() == before + 2
    gc.collect()
    assert fake.fake_alive() == 0


@pytest.mark.parametrize(("case", "half"), [(UNEVEN, False), (CASES["3x3"], True)], ids=["uneven pads", "halves"])
def test_what_cudnn_is_not_for_is_computed_by_the_kernels(
    opened: Tuple[Device, Programs], fake: Any, case: Case, half: bool
) -> None:
    before = fake.fake_runs()
    check((WithCudnn(opened[0]), opened[1]), with_cudnn(case), half)  # type: ignore[arg-type]
    assert fake.fake_runs() == before


@pytest.fixture
def no_cudnn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(cudnn.VARIABLE, "nowhere.so")
    cudnn.library.cache_clear()
    yield
    cudnn.library.cache_clear()


@pytest.mark.usefixtures("no_cudnn")
def test_a_device_without_cudnn_uses_its_kernels(opened: Tuple[Device, Programs]) -> None:
    check(opened, with_cudnn(CASES["3x3"]), half=False)


def test_errors_have_the_name_of_the_call_and_of_the_error(fake: Any) -> None:
    with pytest.raises(DeviceError, match=r"cudnnSetConvolution2dDescriptor failed: CUDNN_STATUS_BAD_PARAM \(3\)"):
        cudnn.Cudnn().convolution(PROBLEM._replace(strides=(0, 1)))
    with pytest.raises(DeviceError, match=r"cudnnGetConvolution2dForwardOutputDim failed: CUDNN_STATUS_BAD_PARAM"):
        cudnn.Cudnn().convolution(PROBLEM._replace(group=2))
    with pytest.raises(DeviceError, match=r"cuDNN makes \[1, 6, 6, 7\] of ConvolutionProblem"):
        cudnn.Cudnn().convolution(PROBLEM._replace(y=(1, 6, 5, 7)))
    gc.collect()
    assert fake.fake_alive() == 0


def test_an_algorithm_must_fit_into_the_workspace(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nbytes, _ = cudnn.Cudnn().convolution(PROBLEM)
    assert nbytes == 64
    monkeypatch.setattr(cudnn, "WORKSPACE", 63)
    with pytest.raises(DeviceError, match="cuDNN has no algorithm for this convolution"):
        cudnn.Cudnn().convolution(PROBLEM)


@pytest.mark.parametrize(
    ("named", "error", "told"),
    [("nowhere.so", NoDriver, "not installed: no nowhere"), ("libm.so.6", DeviceError, "no cuDNN 7")],
)
def test_a_library_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, named: str, error: Any, told: str) -> None:
    monkeypatch.setenv(cudnn.VARIABLE, named)
    cudnn.library.cache_clear()
    try:
        with pytest.raises(error, match=told):
            cudnn.library()
    finally:
        cudnn.library.cache_clear()
