"""onnxruntime's descriptions of memory. armnet plans memory by itself, so they are kept and change nothing."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Union

from armnet.standins.notes import Standin, note
from armnet.standins.onnxruntime.failures import refuse
from armnet.standins.onnxruntime.machine import CPU
from armnet.standins.onnxruntime.options import Named, OrtAllocatorType, OrtMemType


class OrtDeviceMemoryType(Named):
    """The kinds of a device's memory."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(Named):
    """The kinds of devices."""

    CPU = 0
    GPU = 1
    NPU = 2
    FPGA = 3


class OrtMemoryInfo(Standin):
    """Where memory lies and who allocates it."""

    _package = "onnxruntime"

    def __init__(self, name: str, allocator_type: OrtAllocatorType, device_id: int, mem_type: OrtMemType):
        self.name, self.allocator_type, self.device_id, self.mem_type = name, allocator_type, device_id, mem_type
        self.device_mem_type = OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = 0

    @classmethod
    def create_v2(
        cls,
        name: str,
        device_type: OrtMemoryInfoDeviceType,
        vendor_id: int,
        device_id: int,
        device_mem_type: OrtDeviceMemoryType,
        alignment: int,
        allocator_type: OrtAllocatorType,
    ) -> OrtMemoryInfo:
        """One of a device of any kind."""
        made = cls(name, allocator_type, device_id, OrtMemType.DEFAULT)
        made.device_mem_type, made.device_vendor_id = device_mem_type, vendor_id
        return made


CPU_MEMORY = ("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)


class OrtArenaCfg(Standin):
    """How an arena grows: four numbers, or a dictionary of these and others."""

    _package = "onnxruntime"
    _NAMES = ("max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk")

    def __init__(self, first: Union[int, Mapping[str, int]], *others: int):
        self.initial_growth_chunk_size_bytes = self.max_power_of_two_extend_bytes = -1
        given = dict(first) if isinstance(first, Mapping) else dict(zip(self._NAMES, (first, *others)))
        known = (*self._NAMES, "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes")
        for name in self._NAMES:
            setattr(self, name, given.get(name, -1))
        for name, value in given.items():
            if name not in known:
                raise RuntimeError(f"Invalid OrtArenaCfg option: {name}; there are {', '.join(known)}")
            setattr(self, name, value)


def create_and_register_allocator(memory_info: OrtMemoryInfo, arena_cfg: Optional[OrtArenaCfg]) -> None:
    """Noted: a session's memory is planned before it runs."""
    note("create_and_register_allocator changes nothing: armnet plans a session's memory before it runs")


def create_and_register_allocator_v2(
    provider_type: str, memory_info: OrtMemoryInfo, options: Any, arena_cfg: Optional[OrtArenaCfg]
) -> None:
    """The same for an execution provider; refused for any but the processor's."""
    if provider_type != CPU:
        refuse(f"allocator for {provider_type}")
    create_and_register_allocator(memory_info, arena_cfg)
