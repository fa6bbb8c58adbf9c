"""A device of OpenCL."""

from __future__ import annotations

import ctypes
from ctypes import c_size_t, c_uint64, c_void_p
from functools import partial
from typing import Any, List, Sequence, Tuple

import numpy as np

from runtime_arm.errors import DeviceError
from runtime_arm.gpu.device import Argument, Buffer, Device, Launch, Limits, Size
from runtime_arm.gpu.opencl.library import Library
from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

_TYPE, _UNITS, _GROUP, _BUFFER_NBYTES, _GLOBAL_NBYTES, _LOCAL_NBYTES = 0x1000, 0x1002, 0x1004, 0x1010, 0x101F, 0x1023
_UNIFIED, _NAME, _DRIVER_VERSION, _VERSION, _PLATFORM_NAME, _PLATFORM_VERSION = (
    0x1035,
    0x102B,
    0x102D,
    0x102F,
    0x902,
    0x901,
)
_CPU = 2
_PROFILING_ENABLE = 2
_READ_WRITE, _ALLOC_HOST_PTR = 1, 16
_MAP_READ, _MAP_WRITE_INVALIDATE = 1, 4
_PROGRAM_BINARY_SIZES, _PROGRAM_BINARIES, _BUILD_LOG = 0x1165, 0x1166, 0x1183
_COMMAND_START, _COMMAND_END = 0x1282, 0x1283

_FLAGS = b"-cl-std=CL1.2 -cl-mad-enable"
_HEADER = "#define OPENCL_DEVICE 1\n"


class Place(NamedTuple):
    """A device of a platform, before it is opened."""

    platform: int
    device: int


def places(library: Library) -> List[Place]:
    """All devices of all platforms; opencl:0 is the first."""
    return [Place(platform, device) for platform in library.platforms() for device in library.devices(platform)]


class OpenCLDevice(Device):
    """An open device with a context and a queue that runs commands in order."""

    def __init__(self, library: Library, place: Place, spec: str):
        self.spec = spec
        self._library = library
        self._id = place.device
        ask = partial(library.info, "clGetDeviceInfo", self._id)
        self.name = library.text("clGetDeviceInfo", self._id, _NAME)
        platform = library.text("clGetPlatformInfo", place.platform, _PLATFORM_NAME)
        self.driver = f"{platform} {library.text('clGetDeviceInfo', self._id, _DRIVER_VERSION)}"
        self.version = library.text("clGetDeviceInfo", self._id, _VERSION)
        self.is_cpu = bool(_number(ask(_TYPE)) & _CPU)
        self.units = _number(ask(_UNITS))
        self.unified = bool(_number(ask(_UNIFIED)))
        self.limits = Limits(*(_number(ask(what)) for what in (_GROUP, _LOCAL_NBYTES, _BUFFER_NBYTES, _GLOBAL_NBYTES)))
        self._devices = (c_void_p * 1)(self._id)
        self._context = library.make("clCreateContext", None, 1, self._devices, None, None)
        self._queue = library.make("clCreateCommandQueue", self._context, self._id, 0)
        self._enqueue = library.raw("clEnqueueNDRangeKernel")

    def allocate(self, nbytes: int) -> Buffer:
        flags = _READ_WRITE | (_ALLOC_HOST_PTR if self.unified else 0)
        if nbytes > self.limits.buffer_nbytes:
            raise DeviceError(f"{self.name} has no buffers of {nbytes:,} bytes, {self.limits.buffer_nbytes:,} at most")
        handle = self._library.make("clCreateBuffer", self._context, flags, max(4, nbytes), None)
        return Buffer(self, nbytes, handle, self._library.raw("clReleaseMemObject"))

    def upload(self, buffer: Buffer, data: Array) -> None:
        if not data.nbytes:
            return
        if self.unified:
            self._through_map(buffer, data, _MAP_WRITE_INVALIDATE)
            return
        address = data.ctypes.data
        self._library.call(
            "clEnqueueWriteBuffer", self._queue, buffer.handle, 1, 0, data.nbytes, address, 0, None, None
        )

    def download(self, buffer: Buffer, data: Array) -> None:
        if not data.nbytes:
            return
        if self.unified:
            self._through_map(buffer, data, _MAP_READ)
            return
        address = data.ctypes.data
        self._library.call("clEnqueueReadBuffer", self._queue, buffer.handle, 1, 0, data.nbytes, address, 0, None, None)

    def _through_map(self, buffer: Buffer, data: Array, flags: int) -> None:
        """Copy through a view of the buffer. Nobody keeps that view, so arrays that were handed out stay valid."""
        library, nbytes = self._library, data.nbytes
        mapped = library.make("clEnqueueMapBuffer", self._queue, buffer.handle, 1, flags, 0, nbytes, 0, None, None)
        if flags == _MAP_READ:
            ctypes.memmove(data.ctypes.data, mapped, nbytes)
        else:
            ctypes.memmove(mapped, data.ctypes.data, nbytes)
        library.call("clEnqueueUnmapMemObject", self._queue, buffer.handle, mapped, 0, None, None)

    def compile(self, source: str, cached: bytes = b"") -> Tuple[Any, bytes]:
        program = self._from_binary(cached) if cached else self._from_source(source)
        code = self._library.raw("clBuildProgram")(program.handle, 1, self._devices, _FLAGS, None, None)
        if code:
            log = self._library.text("clGetProgramBuildInfo", program.handle, self._id, _BUILD_LOG)
            raise DeviceError(f"{self.driver} does not compile the kernels: {log or code}"[:2000])
        return program, cached or self._binary(program)

    def _from_source(self, source: str) -> _Program:
        text = (_HEADER + source).encode()
        lines, length = (ctypes.c_char_p * 1)(text), c_size_t(len(text))
        handle = self._library.make("clCreateProgramWithSource", self._context, 1, lines, ctypes.byref(length))
        return _Program(handle, self._library)

    def _from_binary(self, binary: bytes) -> _Program:
        content, length, status = (ctypes.c_char_p * 1)(binary), c_size_t(len(binary)), ctypes.c_int32()
        handle = self._library.make(
            *("clCreateProgramWithBinary", self._context, 1, self._devices),
            *(ctypes.byref(length), content, ctypes.byref(status)),
        )
        return _Program(handle, self._library)

    def _binary(self, program: _Program) -> bytes:
        """The program's binary; empty if the driver has none to give."""
        size = _number(self._library.info("clGetProgramInfo", program.handle, _PROGRAM_BINARY_SIZES))
        if not size:
            return b""
        content = ctypes.create_string_buffer(size)
        pointers = (c_void_p * 1)(ctypes.addressof(content))
        self._library.call(
            "clGetProgramInfo", program.handle, _PROGRAM_BINARIES, ctypes.sizeof(pointers), pointers, None
        )
        return content.raw

    def prepare(self, program: Any, kernel: str, size: Size, group: Size, arguments: Sequence[Argument]) -> Launch:
        handle = self._library.make("clCreateKernel", program.handle, kernel.encode())
        owner = _Kernel(handle, program, self._library)
        for at, argument in enumerate(arguments):
            value = _as_argument(argument)
            self._library.call("clSetKernelArg", handle, at, ctypes.sizeof(value), ctypes.byref(value))
        total = (c_size_t * 3)(*(-(-n // g) * g for n, g in zip(size, group)))
        local = (c_size_t * 3)(*group)
        return Launch(kernel, _Enqueue(self, owner, total, local), arguments)

    def flush(self) -> None:
        self._library.call("clFlush", self._queue)

    def finish(self) -> None:
        self._library.call("clFinish", self._queue)

    def seconds(self, launches: Sequence[Launch]) -> List[float]:
        self.finish()
        plain = self._queue
        self._queue = self._library.make("clCreateCommandQueue", self._context, self._id, _PROFILING_ENABLE)
        try:
            events = [launch.enqueue.timed() for launch in launches]  # type: ignore[attr-defined]
            self.finish()
            return [self._duration(event) for event in events]
        finally:
            self._library.call("clReleaseCommandQueue", self._queue)
            self._queue = plain

    def _duration(self, event: c_void_p) -> float:
        times = (c_uint64(), c_uint64())
        for what, time in zip((_COMMAND_START, _COMMAND_END), times):
            self._library.call("clGetEventProfilingInfo", event, what, 8, ctypes.byref(time), None)
        self._library.call("clReleaseEvent", event)
        return (times[1].value - times[0].value) * 1e-9


class _Program:
    def __init__(self, handle: Any, library: Library):
        self.handle = handle
        self._free = library.raw("clReleaseProgram")

    def __del__(self) -> None:
        self._free(self.handle)


class _Kernel:
    """A kernel object with its own arguments."""

    def __init__(self, handle: Any, program: _Program, library: Library):
        self.handle = handle
        self.program = program
        self._free = library.raw("clReleaseKernel")

    def __del__(self) -> None:
        self._free(self.handle)


class _Enqueue:
    """Puts a kernel into its device's queue."""

    def __init__(self, device: OpenCLDevice, kernel: _Kernel, total: Any, local: Any):
        self._device, self._kernel, self._total, self._local = device, kernel, total, local

    def __call__(self) -> None:
        self._put(None)

    def timed(self) -> c_void_p:
        """The event that says when it ran."""
        event = c_void_p()
        self._put(ctypes.byref(event))
        return event

    def _put(self, event: Any) -> None:
        device = self._device
        code = device._enqueue(device._queue, self._kernel.handle, 3, None, self._total, self._local, 0, None, event)
        if code:
            device._library.refuse("clEnqueueNDRangeKernel", code)


def _as_argument(argument: Argument) -> Any:
    if isinstance(argument, Buffer):
        return c_void_p(argument.handle)
    if isinstance(argument, (int, np.integer)):
        return ctypes.c_int32(argument)
    return ctypes.c_float(argument)


def _number(content: bytes) -> int:
    return int.from_bytes(content, "little")
