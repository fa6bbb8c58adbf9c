"""A device of CUDA's driver."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint64, c_void_p
from functools import lru_cache, partial
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from runtime_arm.errors import DeviceError, NoDriver
from runtime_arm.gpu.cuda.compiler import compiled
from runtime_arm.gpu.cuda.cudnn import Cudnn
from runtime_arm.gpu.device import Argument, Buffer, ConvolutionProblem, Device, Launch, Limits, Size
from runtime_arm.netdef import Array

# CUdevice_attribute
_GROUP, _LOCAL_NBYTES, _UNITS, _INTEGRATED, _MAJOR, _MINOR = 1, 8, 16, 18, 75, 76

_pointer, _address = c_void_p, c_uint64
_ARGUMENTS = {
    "cuMemAlloc_v2": [_pointer, c_size_t],
    "cuMemFree_v2": [_address],
    "cuMemcpyHtoD_v2": [_address, _pointer, c_size_t],
    "cuMemcpyDtoH_v2": [_pointer, _address, c_size_t],
    "cuLaunchKernel": [_pointer, *[ctypes.c_uint] * 7, _pointer, _pointer, _pointer],
    "cuCtxSetCurrent": [_pointer],
    "cuModuleLoadData": [_pointer, _pointer],
    "cuModuleGetFunction": [_pointer, _pointer, c_char_p],
    "cuEventCreate": [_pointer, ctypes.c_uint],
    "cuEventRecord": [_pointer, _pointer],
    "cuEventDestroy_v2": [_pointer],
    "cuEventElapsedTime": [_pointer, _pointer, _pointer],
}


@lru_cache(maxsize=1)
def driver() -> Any:
    """CUDA's driver. DeviceError if it is not installed or finds no GPU."""
    for name in ("libcuda.so.1", "libcuda.so", "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so"):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise NoDriver("CUDA's driver (libcuda.so.1) is not installed")
    for function, arguments in _ARGUMENTS.items():
        getattr(library, function).argtypes = arguments
    code = library.cuInit(0)
    if code:
        raise DeviceError(f"cuInit failed: {_name_of(library, code)}")
    return library


def _name_of(library: Any, code: int) -> str:
    """``CUDA_ERROR_NO_DEVICE (100)``."""
    name = c_char_p()
    library.cuGetErrorName(code, byref(name))
    return f"{(name.value or b'an unknown error').decode()} ({code})"


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. DeviceError with its name and the error's if it fails."""
    code = getattr(driver(), name)(*arguments)
    if code:
        raise DeviceError(f"{name} failed: {_name_of(driver(), code)}")


def device_count() -> int:
    """How many GPUs there are."""
    count = c_int()
    call("cuDeviceGetCount", byref(count))
    return count.value


class CudaDevice(Device):
    """An open device with its primary context. Everything goes through the default stream, in order."""

    is_cpu = False

    def __init__(self, number: int):
        self.spec = f"cuda:{number}"
        device, version, total = c_int(), c_int(), c_size_t()
        call("cuDeviceGet", byref(device), number)
        name = ctypes.create_string_buffer(256)
        call("cuDeviceGetName", name, 256, device)
        self.name = name.value.decode("utf-8", "replace")
        call("cuDriverGetVersion", byref(version))
        self.driver = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        call("cuDeviceTotalMem_v2", byref(total), device)

        def ask(attribute: int) -> int:
            value = c_int()
            call("cuDeviceGetAttribute", byref(value), attribute, device)
            return value.value

        self.unified = bool(ask(_INTEGRATED))
        self.units = ask(_UNITS)
        self.capability = ask(_MAJOR) * 10 + ask(_MINOR)
        self.limits = Limits(ask(_GROUP), ask(_LOCAL_NBYTES), total.value, total.value)
        self._cudnn: Optional[Cudnn] = None
        self._context = c_void_p()
        call("cuDevicePrimaryCtxRetain", byref(self._context), device)
        self._enter()

    def _enter(self) -> None:
        """The context belongs to a thread, and any thread may call."""
        call("cuCtxSetCurrent", self._context)

    def allocate(self, nbytes: int) -> Buffer:
        self._enter()
        address = c_uint64()
        call("cuMemAlloc_v2", byref(address), max(4, nbytes))
        return Buffer(self, nbytes, address.value, self._free)

    def _free(self, address: int) -> None:
        driver().cuCtxSetCurrent(self._context)
        driver().cuMemFree_v2(address)

    def upload(self, buffer: Buffer, data: Array) -> None:
        self._enter()
        if data.nbytes:
            call("cuMemcpyHtoD_v2", buffer.handle, data.ctypes.data, data.nbytes)

    def download(self, buffer: Buffer, data: Array) -> None:
        self._enter()
        if data.nbytes:
            call("cuMemcpyDtoH_v2", data.ctypes.data, buffer.handle, data.nbytes)

    def compile(self, source: str, cached: bytes = b"") -> Tuple[Any, bytes]:
        self._enter()
        binary = cached or compiled(source, self.capability)
        module = c_void_p()
        call("cuModuleLoadData", byref(module), binary)
        return module, binary

    def prepare(self, program: Any, kernel: str, size: Size, group: Size, arguments: Sequence[Argument]) -> Launch:
        self._enter()
        function = c_void_p()
        call("cuModuleGetFunction", byref(function), program, kernel.encode())
        values = [_as_argument(argument) for argument in arguments]
        pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        grid = [-(-n // g) for n, g in zip(size, group)]
        launch_kernel = driver().cuLaunchKernel

        def enqueue(keep: Any = values) -> None:
            code = launch_kernel(function, *grid, *group, 0, None, pointers, None)
            if code:
                raise DeviceError(f"cuLaunchKernel failed: {_name_of(driver(), code)}")

        return Launch(kernel, enqueue, arguments)

    def convolution(self, problem: ConvolutionProblem, x: Buffer, w: Buffer, y: Buffer) -> Optional[Launch]:
        """cuDNN's, where it is installed."""
        self._enter()
        if self._cudnn is None:
            try:
                self._cudnn = Cudnn()
            except NoDriver:
                return None
        nbytes, run = self._cudnn.convolution(problem)
        workspace = self.allocate(nbytes)
        enqueue = partial(run, x.handle, w.handle, workspace.handle, y.handle)
        return Launch("cudnnConvolutionForward", enqueue, [x, w, workspace, y])

    def flush(self) -> None:
        """Launches start by themselves."""

    def finish(self) -> None:
        self._enter()
        call("cuCtxSynchronize")

    def seconds(self, launches: Sequence[Launch]) -> List[float]:
        self.finish()
        events = [c_void_p() for _ in range(len(launches) + 1)]
        for event in events:
            call("cuEventCreate", byref(event), 0)
        call("cuEventRecord", events[0], None)
        for launch, event in zip(launches, events[1:]):
            launch.enqueue()
            call("cuEventRecord", event, None)
        self.finish()
        times = []
        for before, after in zip(events, events[1:]):
            milliseconds = c_float()
            call("cuEventElapsedTime", byref(milliseconds), before, after)
            times.append(milliseconds.value * 1e-3)
        for event in events:
            call("cuEventDestroy_v2", event)
        return times


def _as_argument(argument: Argument) -> Any:
    if isinstance(argument, Buffer):
        return c_uint64(argument.handle)
    if isinstance(argument, (int, np.integer)):
        return c_int32(argument)
    return c_float(argument)
