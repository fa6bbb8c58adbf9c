"""Memory with two sides, the processor's and a device's, which copies only when one side is out of date.

The four states and their transitions are those of Caffe's SyncedMemory (src/caffe/syncedmem.cpp).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Optional

import numpy as np

from runtime_arm.errors import DeviceError, UsageError
from runtime_arm.gpu.device import Buffer, Device
from runtime_arm.netdef import Array


class State(Enum):
    """Which side holds the newest content. UNINITIALIZED: neither has memory yet."""

    UNINITIALIZED = "uninitialized"
    HEAD_AT_CPU = "head at CPU"
    HEAD_AT_GPU = "head at GPU"
    SYNCED = "synced"


class SyncedMemory:
    """``nbytes`` bytes that the processor and ``device`` both read and write.

    A side gets memory, filled with zeros, when it is first touched. ``cpu_data`` and ``gpu_data`` are for reading and
    leave both sides valid; ``mutable_cpu_data`` and ``mutable_gpu_data`` are for writing and make the other side stale.
    Each brings its side up to date first. ``copies`` counts the transfers, in either direction. Without a device the
    ``gpu_*`` functions raise a DeviceError.
    """

    def __init__(self, nbytes: int, device: Optional[Device] = None):
        if isinstance(nbytes, bool) or not isinstance(nbytes, (int, np.integer)) or nbytes < 0:
            raise UsageError(f"the size of a memory is a number of bytes, got {nbytes!r}")
        self.nbytes = int(nbytes)
        self.device = device
        self.copies = 0
        self.state = State.UNINITIALIZED
        self._cpu: Optional[Array] = None
        self._gpu: Optional[Buffer] = None

    def cpu_data(self) -> Array:
        """The processor's side for reading: a read-only array of bytes."""
        view: Array = self._to_cpu().view()
        view.flags.writeable = False
        return view

    def mutable_cpu_data(self) -> Array:
        """The processor's side for writing: an array of bytes. The device's side is stale from now on."""
        memory = self._to_cpu()
        self.state = State.HEAD_AT_CPU
        return memory

    def set_cpu_data(self, data: Array) -> None:
        """Use the caller's C-contiguous array of ``nbytes`` bytes as the processor's side, without a copy."""
        if not isinstance(data, np.ndarray) or data.nbytes != self.nbytes or not data.flags.c_contiguous:
            raise UsageError(f"set_cpu_data takes a C-contiguous array of {self.nbytes} bytes")
        self._cpu = data.reshape(-1).view(np.uint8)
        self.state = State.HEAD_AT_CPU

    def gpu_data(self) -> Buffer:
        """The device's side for reading."""
        return self._to_gpu()

    def mutable_gpu_data(self) -> Buffer:
        """The device's side for writing. The processor's side is stale from now on."""
        memory = self._to_gpu()
        self.state = State.HEAD_AT_GPU
        return memory

    def set_gpu_data(self, data: Buffer) -> None:
        """Use the caller's buffer of ``nbytes`` bytes on this device as the device's side, without a copy."""
        device = self._device()
        if not isinstance(data, Buffer) or data.device is not device or data.nbytes != self.nbytes:
            raise UsageError(f"set_gpu_data takes a buffer of {self.nbytes} bytes on {device.name}")
        self._gpu = data
        self.state = State.HEAD_AT_GPU

    def _device(self) -> Device:
        if self.device is None:
            raise DeviceError("this memory has no device; SyncedMemory(nbytes, device) takes one")
        return self.device

    def _to_cpu(self) -> Array:
        if self._cpu is None:
            self._cpu = np.zeros(self.nbytes, np.uint8)
        if self.state is State.UNINITIALIZED:
            self.state = State.HEAD_AT_CPU
        elif self.state is State.HEAD_AT_GPU:
            assert self._gpu is not None
            if not self._cpu.flags.writeable:
                self._cpu = np.zeros(self.nbytes, np.uint8)
            self._device().download(self._gpu, self._cpu)
            self.copies += 1
            self.state = State.SYNCED
        return self._cpu

    def _to_gpu(self) -> Buffer:
        device = self._device()
        if self._gpu is None:
            self._gpu = device.allocate(self.nbytes)
            if self.state is State.UNINITIALIZED:
                device.upload(self._gpu, np.zeros(self.nbytes, np.uint8))
        if self.state is State.UNINITIALIZED:
            self.state = State.HEAD_AT_GPU
        elif self.state is State.HEAD_AT_CPU:
            assert self._cpu is not None
            device.upload(self._gpu, self._cpu)
            self.copies += 1
            self.state = State.SYNCED
        return self._gpu

    def __repr__(self) -> str:
        where: Any = self.device.name if self.device is not None else "no device"
        return f"SyncedMemory({self.nbytes} bytes, {self.state.value}, {where}, {self.copies} copies)"
