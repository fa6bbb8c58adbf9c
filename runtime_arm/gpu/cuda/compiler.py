"""NVRTC, CUDA's compiler as a library: from source to machine code, without a GPU."""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from functools import lru_cache
from typing import Any, List

from runtime_arm.errors import DeviceError
from runtime_arm.gpu.cuda.prelude import PRELUDE

VARIABLE = "ARMNET_NVRTC"  # of the environment: the library, where it is none of NAMES
NAMES = ("libnvrtc.so", *(f"libnvrtc.so.{version}" for version in ("13", "12", "11.8", "11.4", "11.2", "11.0", "10.2")))


@lru_cache(maxsize=1)
def library() -> Any:
    """NVRTC. DeviceError if it is not installed."""
    chosen = os.environ.get(VARIABLE)
    for name in [chosen] if chosen else NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DeviceError(
        f"CUDA's compiler is not installed: no {chosen or 'libnvrtc.so'}; it comes with CUDA's toolkit, and {VARIABLE} "
        "can name the library"
    )


def _call(name: str, *arguments: Any) -> None:
    code = getattr(library(), name)(*arguments)
    if code:
        text = library().nvrtcGetErrorString
        text.restype = c_char_p
        raise DeviceError(f"{name} failed: {text(code).decode()} ({code})")


def architectures() -> List[int]:
    """The compute capabilities for which it compiles, such as 87 for Jetson Orin; empty if it cannot tell."""
    if not hasattr(library(), "nvrtcGetSupportedArchs"):
        return []
    count = c_int()
    _call("nvrtcGetNumSupportedArchs", byref(count))
    known = (c_int * count.value)()
    _call("nvrtcGetSupportedArchs", known)
    return list(known)


def compiled(source: str, capability: int) -> bytes:
    """Machine code for GPUs of a compute capability; PTX, which the driver compiles, if NVRTC does not know it.

    source: OpenCL C as the kernels are written in. DeviceError with the compiler's words.
    """
    known = architectures()
    exact = hasattr(library(), "nvrtcGetCUBIN") and (not known or capability in known)
    target = max([one for one in known if one <= capability], default=capability)
    options = [f"--gpu-architecture={'sm' if exact else 'compute'}_{target}".encode(), b"--std=c++11"]
    program, text = c_void_p(), (PRELUDE + source).encode()
    _call("nvrtcCreateProgram", byref(program), text, b"kernels.cu", 0, None, None)
    try:
        if library().nvrtcCompileProgram(program, len(options), (c_char_p * len(options))(*options)):
            raise DeviceError(f"NVRTC does not compile the kernels: {_content('ProgramLog', program)[:1500].decode()}")
        return _content("CUBIN" if exact else "PTX", program)
    finally:
        _call("nvrtcDestroyProgram", byref(program))


def _content(what: str, program: c_void_p) -> bytes:
    size = c_size_t()
    _call(f"nvrtcGet{what}Size", program, byref(size))
    content = ctypes.create_string_buffer(size.value)
    _call(f"nvrtcGet{what}", program, content)
    return content.raw
