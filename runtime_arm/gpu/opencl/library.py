"""Finds the OpenCL library and declares the functions that are used: OpenCL 1.2, chapters 4 and 5."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, List, NoReturn, Sequence

from runtime_arm.errors import DeviceError, NoDriver
from runtime_arm.gpu.opencl.codes import DEVICE_NOT_FOUND, SUCCESS, name_of

VARIABLE = "ARMNET_OPENCL"  # names the library where it is none of these
NAMES = (
    "libOpenCL.so.1",
    "libOpenCL.so",
    "/vendor/lib64/libOpenCL.so",  # Android, under Termux
    "/vendor/lib64/egl/libGLES_mali.so",
    "/vendor/lib/libOpenCL.so",
    "/vendor/lib/egl/libGLES_mali.so",
    "/System/Library/Frameworks/OpenCL.framework/OpenCL",
)

PLATFORM_NOT_FOUND = -1001

_codes = POINTER(c_int32)
_handles = POINTER(c_void_p)
_sizes = POINTER(c_size_t)
_RETURNS_CODE = {
    "clGetPlatformIDs": [c_uint32, _handles, POINTER(c_uint32)],
    "clGetPlatformInfo": [c_void_p, c_uint32, c_size_t, c_void_p, _sizes],
    "clGetDeviceIDs": [c_void_p, c_uint64, c_uint32, _handles, POINTER(c_uint32)],
    "clGetDeviceInfo": [c_void_p, c_uint32, c_size_t, c_void_p, _sizes],
    "clBuildProgram": [c_void_p, c_uint32, _handles, c_char_p, c_void_p, c_void_p],
    "clGetProgramInfo": [c_void_p, c_uint32, c_size_t, c_void_p, _sizes],
    "clGetProgramBuildInfo": [c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, _sizes],
    "clSetKernelArg": [c_void_p, c_uint32, c_size_t, c_void_p],
    "clEnqueueNDRangeKernel": [c_void_p, c_void_p, c_uint32, _sizes, _sizes, _sizes, c_uint32, _handles, _handles],
    "clEnqueueWriteBuffer": [c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, _handles, _handles],
    "clEnqueueReadBuffer": [c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, _handles, _handles],
    "clEnqueueUnmapMemObject": [c_void_p, c_void_p, c_void_p, c_uint32, _handles, _handles],
    "clGetEventProfilingInfo": [c_void_p, c_uint32, c_size_t, c_void_p, _sizes],
    "clFlush": [c_void_p],
    "clFinish": [c_void_p],
    "clReleaseMemObject": [c_void_p],
    "clReleaseKernel": [c_void_p],
    "clReleaseProgram": [c_void_p],
    "clReleaseEvent": [c_void_p],
    "clReleaseCommandQueue": [c_void_p],
}
_RETURNS_HANDLE = {
    "clCreateContext": [c_void_p, c_uint32, _handles, c_void_p, c_void_p, _codes],
    "clCreateCommandQueue": [c_void_p, c_void_p, c_uint64, _codes],
    "clCreateBuffer": [c_void_p, c_uint64, c_size_t, c_void_p, _codes],
    "clCreateProgramWithSource": [c_void_p, c_uint32, POINTER(c_char_p), _sizes, _codes],
    "clCreateProgramWithBinary": [c_void_p, c_uint32, _handles, _sizes, POINTER(c_char_p), _codes, _codes],
    "clCreateKernel": [c_void_p, c_char_p, _codes],
    "clEnqueueMapBuffer": [
        *(c_void_p, c_void_p, c_uint32, c_uint64, c_size_t, c_size_t, c_uint32, _handles, _handles, _codes)
    ],
}


class Library:
    """OpenCL's functions. A call that fails raises a DeviceError with the function's name and the error's."""

    def __init__(self) -> None:
        chosen = os.environ.get(VARIABLE)
        self._library, self.path = _loaded([chosen] if chosen else NAMES)
        try:
            for name, arguments in _RETURNS_CODE.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, c_int32
            for name, arguments in _RETURNS_HANDLE.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, c_void_p
        except AttributeError as error:
            raise DeviceError(f"{self.path} is no OpenCL library: {error}") from error

    def raw(self, name: str) -> Any:
        """The function itself, which returns its error code."""
        return getattr(self._library, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that returns an error code."""
        code = getattr(self._library, name)(*arguments)
        if code != SUCCESS:
            self.refuse(name, code)

    def refuse(self, name: str, code: int) -> NoReturn:
        """DeviceError: this function returned this error code."""
        raise DeviceError(f"{name} failed: {name_of(code)}")

    def make(self, name: str, *arguments: Any) -> Any:
        """Call a function whose last argument takes the error code; the handle that it returns."""
        code = c_int32()
        handle = getattr(self._library, name)(*arguments, ctypes.byref(code))
        if code.value != SUCCESS or not handle:
            raise DeviceError(f"{name} failed: {name_of(code.value)}")
        return handle

    def info(self, function: str, *arguments: Any) -> bytes:
        """The result of one of the clGet...Info functions."""
        size = c_size_t()
        self.call(function, *arguments, 0, None, ctypes.byref(size))
        content = ctypes.create_string_buffer(max(1, size.value))
        self.call(function, *arguments, size, content, None)
        return content.raw[: size.value]

    def text(self, function: str, *arguments: Any) -> str:
        """The same, as text."""
        return self.info(function, *arguments).split(b"\0")[0].decode("utf-8", "replace").strip()

    def platforms(self) -> List[int]:
        """The platforms; an empty list where no driver is installed."""
        return self._listed("clGetPlatformIDs")

    def devices(self, platform: int) -> List[int]:
        """The devices of a platform, of any kind."""
        return self._listed("clGetDeviceIDs", platform, 0xFFFFFFFF)

    def _listed(self, name: str, *arguments: Any) -> List[int]:
        count = c_uint32()
        code = getattr(self._library, name)(*arguments, 0, None, ctypes.byref(count))
        if code in (PLATFORM_NOT_FOUND, DEVICE_NOT_FOUND) or not count.value:
            return []
        if code != SUCCESS:
            raise DeviceError(f"{name} failed: {name_of(code)}")
        handles = (c_void_p * count.value)()
        self.call(name, *arguments, count, handles, None)
        return [handle for handle in handles if handle]


def _loaded(names: Sequence[str]) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name), name
        except OSError as error:
            reason = str(error)
    if len(names) == 1:
        raise DeviceError(f"cannot load the OpenCL library that {VARIABLE} names: {reason}")
    raise NoDriver(
        "no OpenCL library (libOpenCL.so.1) is installed; on Debian: apt-get install ocl-icd-libopencl1 and a driver. "
        f"{VARIABLE} can name the library"
    )
