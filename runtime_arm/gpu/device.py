"""The interface of a device with any driver: memory, compiled kernels, launches in order, and their times.

``runtime_arm/gpu/opencl`` and ``runtime_arm/gpu/cuda`` implement it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from runtime_arm.netdef import Array
from runtime_arm.records import NamedTuple

Size = Tuple[int, int, int]


class Limits(NamedTuple):
    """The limits of a device: work items in a group, bytes of memory for one group, bytes of one buffer, bytes in
    all."""

    group: int
    local_nbytes: int
    buffer_nbytes: int
    memory_nbytes: int


class Buffer:
    """Memory of a device. It is freed when the last reference to it is gone."""

    def __init__(self, device: Device, nbytes: int, handle: Any, free: Callable[[Any], Any]):
        self.device = device
        self.nbytes = nbytes
        self.handle = handle
        self._free = free

    def __del__(self) -> None:
        if self.handle:
            self._free(self.handle)
            self.handle = None


Argument = Union[Buffer, int, float]


class Launch(NamedTuple):
    """A kernel with its arguments, ready to be put into the queue any number of times."""

    name: str
    enqueue: Callable[[], None]
    arguments: Sequence[Argument]  # kept, since drivers keep no buffer alive


class ConvolutionProblem(NamedTuple):
    """A convolution of images: the shapes of x (N, C, H, W), w (M, C / group, KH, KW) and y; pads are the same on
    both sides."""

    x: Sequence[int]
    w: Sequence[int]
    y: Sequence[int]
    pads: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    group: int


class Device(ABC):
    """An open device. ``spec`` is what the user calls it, "opencl:0"; ``driver`` names the driver and its version.

    Launches run in the order in which they are queued. Every failure of the driver is a DeviceError that names the
    call and the error.
    """

    spec: str
    name: str
    driver: str
    unified: bool  # whether it uses the processor's memory
    is_cpu: bool  # whether it is the processor, running OpenCL in software
    units: int  # how many processors it has
    limits: Limits

    def caveats(self) -> List[str]:
        """What has to be said about times that are measured on the device."""
        return [f"{self.spec} is the processor itself: its times are not those of a GPU"] if self.is_cpu else []

    @abstractmethod
    def allocate(self, nbytes: int) -> Buffer:
        """A buffer with any content."""

    @abstractmethod
    def upload(self, buffer: Buffer, data: Array) -> None:
        """Copy a C-contiguous array into the buffer; it may be changed as soon as this returns."""

    @abstractmethod
    def download(self, buffer: Buffer, data: Array) -> None:
        """Copy the buffer into a C-contiguous array, after everything that was queued before."""

    @abstractmethod
    def compile(self, source: str, cached: bytes = b"") -> Tuple[Any, bytes]:
        """A program, and the binary from which it can be made again; empty if the driver has none.

        cached: such a binary. DeviceError if the driver does not take the binary or the source.
        """

    @abstractmethod
    def prepare(self, program: Any, kernel: str, size: Size, group: Size, arguments: Sequence[Argument]) -> Launch:
        """A launch of this many work items in groups of this size. ints are 32-bit, floats are float32."""

    def convolution(self, problem: ConvolutionProblem, x: Buffer, w: Buffer, y: Buffer) -> Optional[Launch]:
        """A launch of the vendor's own convolution of plain float32 blobs; None if it has none."""
        return None

    @abstractmethod
    def flush(self) -> None:
        """Start the queued launches; returns at once."""

    @abstractmethod
    def finish(self) -> None:
        """Wait until everything that was queued is done."""

    @abstractmethod
    def seconds(self, launches: Sequence[Launch]) -> List[float]:
        """Run the launches; the time that each took on the device, by the device's own clock."""
