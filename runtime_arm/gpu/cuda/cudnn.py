"""cuDNN's convolution, called through ``ctypes`` if libcudnn is installed. It computes on buffers of CUDA's driver.

The interface is that of cuDNN 7 and newer; tensors are (N, C, H, W), float32.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_void_p
from functools import lru_cache
from typing import Any, Callable, List, Sequence, Tuple

from runtime_arm.errors import DeviceError, NoDriver
from runtime_arm.gpu.device import ConvolutionProblem
from runtime_arm.records import NamedTuple

VARIABLE = "ARMNET_CUDNN"  # names the library where it is none of these
NAMES = ("libcudnn.so", "libcudnn.so.9", "libcudnn.so.8", "libcudnn.so.7")
WORKSPACE = 64 << 20  # bytes that an algorithm may use

_NCHW, _FLOAT, _CROSS_CORRELATION, _FMA_MATH = 0, 0, 1, 3
_ALGORITHMS = 8
_FMA_SINCE = 8000  # older versions have no TF32, which this rules out


class _Performance(ctypes.Structure):
    """cudnnConvolutionFwdAlgoPerf_t"""

    _fields_ = [
        ("algorithm", c_int),
        ("status", c_int),
        ("time", c_float),
        ("memory", c_size_t),
        ("determinism", c_int),
        ("math", c_int),
        ("reserved", c_int * 3),
    ]


_ARGUMENTS = {
    "cudnnCreate": [POINTER(c_void_p)],
    "cudnnCreateTensorDescriptor": [POINTER(c_void_p)],
    "cudnnCreateFilterDescriptor": [POINTER(c_void_p)],
    "cudnnCreateConvolutionDescriptor": [POINTER(c_void_p)],
    "cudnnDestroyTensorDescriptor": [c_void_p],
    "cudnnDestroyFilterDescriptor": [c_void_p],
    "cudnnDestroyConvolutionDescriptor": [c_void_p],
    "cudnnSetTensor4dDescriptor": [c_void_p, *[c_int] * 6],
    "cudnnSetFilter4dDescriptor": [c_void_p, *[c_int] * 6],
    "cudnnSetConvolution2dDescriptor": [c_void_p, *[c_int] * 8],
    "cudnnSetConvolutionGroupCount": [c_void_p, c_int],
    "cudnnSetConvolutionMathType": [c_void_p, c_int],
    "cudnnGetConvolution2dForwardOutputDim": [*[c_void_p] * 3, *[POINTER(c_int)] * 4],
    "cudnnGetConvolutionForwardAlgorithm_v7": [*[c_void_p] * 5, c_int, POINTER(c_int), POINTER(_Performance)],
    "cudnnConvolutionForward": [
        *[c_void_p] * 7,
        c_int,
        *(c_void_p, c_size_t),
        *[c_void_p] * 3,
    ],
}


@lru_cache(maxsize=1)
def library() -> Any:
    """cuDNN. NoDriver if it is not installed, DeviceError if it is something else."""
    chosen = os.environ.get(VARIABLE)
    for name in [chosen] if chosen else NAMES:
        try:
            found = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise NoDriver(f"cuDNN is not installed: no {chosen or NAMES[0]}")
    try:
        for function, arguments in _ARGUMENTS.items():
            getattr(found, function).argtypes = arguments
        found.cudnnGetErrorString.restype = c_char_p
        found.cudnnGetVersion.restype = c_size_t
    except AttributeError as error:
        raise DeviceError(f"{name} is no cuDNN 7 or newer: {error}") from error
    return found


def call(name: str, *arguments: Any) -> None:
    """Call a function of cuDNN. DeviceError with its name and the error's if it fails."""
    code = getattr(library(), name)(*arguments)
    if code:
        raise DeviceError(f"{name} failed: {library().cudnnGetErrorString(code).decode()} ({code})")


class _Descriptor:
    """A descriptor of cuDNN, freed when the last reference to it is gone."""

    def __init__(self, kind: str, setter: str, *arguments: int):
        self.handle = c_void_p()
        self._destroy = getattr(library(), f"cudnnDestroy{kind}Descriptor")
        call(f"cudnnCreate{kind}Descriptor", byref(self.handle))
        call(setter, self.handle, *arguments)

    def __del__(self) -> None:
        if self.handle:
            self._destroy(self.handle)


class _Convolution(NamedTuple):
    """A convolution that is described to cuDNN; it can run on any buffers."""

    cudnn: c_void_p
    x: _Descriptor
    w: _Descriptor
    convolution: _Descriptor
    y: _Descriptor
    algorithm: int
    nbytes: int  # of workspace

    def run(self, x: int, w: int, workspace: int, y: int) -> None:
        """Run on the buffers at these addresses."""
        read = self.x.handle, x, self.w.handle, w
        how = self.convolution.handle, self.algorithm, workspace, self.nbytes
        one, zero = byref(c_float(1.0)), byref(c_float(0.0))
        call("cudnnConvolutionForward", self.cudnn, one, *read, *how, zero, self.y.handle, y)


class Cudnn:
    """cuDNN for the context of CUDA that is current."""

    def __init__(self) -> None:
        self._handle = c_void_p()
        call("cudnnCreate", byref(self._handle))

    def convolution(self, problem: ConvolutionProblem) -> Tuple[int, Callable[[int, int, int, int], None]]:
        """The bytes of workspace that it needs, and a function of the addresses of x, w, workspace and y.

        The fastest algorithm is taken that cuDNN expects to need no more than WORKSPACE bytes.
        """
        x = _Descriptor("Tensor", "cudnnSetTensor4dDescriptor", _NCHW, _FLOAT, *problem.x)
        w = _Descriptor("Filter", "cudnnSetFilter4dDescriptor", _FLOAT, _NCHW, *problem.w)
        y = _Descriptor("Tensor", "cudnnSetTensor4dDescriptor", _NCHW, _FLOAT, *problem.y)
        geometry = *problem.pads, *problem.strides, *problem.dilations
        how = _Descriptor("Convolution", "cudnnSetConvolution2dDescriptor", *geometry, _CROSS_CORRELATION, _FLOAT)
        call("cudnnSetConvolutionGroupCount", how.handle, problem.group)
        if library().cudnnGetVersion() >= _FMA_SINCE:
            call("cudnnSetConvolutionMathType", how.handle, _FMA_MATH)
        dims = [c_int() for _ in range(4)]
        call("cudnnGetConvolution2dForwardOutputDim", how.handle, x.handle, w.handle, *map(byref, dims))
        if tuple(dim.value for dim in dims) != tuple(problem.y):
            raise DeviceError(f"cuDNN makes {[dim.value for dim in dims]} of {problem}")
        algorithm, nbytes = self._chosen([x, w, how, y])
        return nbytes, _Convolution(self._handle, x, w, how, y, algorithm, nbytes).run

    def _chosen(self, descriptors: Sequence[_Descriptor]) -> Tuple[int, int]:
        """The algorithm and its bytes of workspace."""
        found, known = c_int(), (_Performance * _ALGORITHMS)()
        handles: List[Any] = [one.handle for one in descriptors]
        call("cudnnGetConvolutionForwardAlgorithm_v7", self._handle, *handles, _ALGORITHMS, byref(found), known)
        for one in known[: found.value]:
            if one.status == 0 and one.memory <= WORKSPACE:
                return one.algorithm, one.memory
        raise DeviceError("cuDNN has no algorithm for this convolution")
