"""OrtDevice: where a value lies. Values of a session always lie in the processor's memory."""

from __future__ import annotations

from typing import Any

from armnet.standins.notes import Standin
from armnet.standins.onnxruntime.options import Named


class OrtDeviceVendorId(Named):
    """Who makes a device."""

    NONE = 0
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


_KINDS = ("cpu", "gpu", "fpga", "npu", "cuda", "cann", "dml", "webgpu")
_NUMBERS = {"cpu": 0, "gpu": 1, "cuda": 1, "dml": 1, "webgpu": 1, "fpga": 2, "npu": 3, "cann": 3}
_VENDORS = {
    "cuda": OrtDeviceVendorId.NVIDIA,
    "dml": OrtDeviceVendorId.MICROSOFT,
    "cann": OrtDeviceVendorId.HUAWEI,
}


class OrtDevice(Standin):
    """``OrtDevice.make("cpu", 0)``. Nothing but descriptions can be made of any other device."""

    __slots__ = ("_id", "_vendor", "kind")
    _package = "onnxruntime"

    def __init__(self, device_type: int = 0, memory_type: int = 0, device_id: int = 0):
        self.kind, self._id, self._vendor = _KINDS[device_type], device_id, 0

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of this name. ValueError if onnxruntime knows none."""
        name = ort_device_name.lower()
        if name not in _KINDS:
            raise ValueError(f"Unsupported device type: {ort_device_name}; there are {', '.join(_KINDS)}")
        made = OrtDevice(0, 0, device_id)
        made.kind = name
        made._vendor = _VENDORS.get(name, OrtDeviceVendorId.NONE) if vendor_id < 0 else vendor_id
        return made

    @staticmethod
    def cpu() -> int:
        """The number of this kind of device."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The number of this kind of memory."""
        return 0

    def device_type(self) -> int:
        """The kind of device."""
        return _NUMBERS[self.kind]

    def device_id(self) -> int:
        """The number of the device among those of its kind."""
        return self._id

    def device_vendor_id(self) -> int:
        """The vendor's number."""
        return int(self._vendor)

    def device_mem_type(self) -> int:
        """The kind of memory."""
        return 0


def require_cpu(device_type: Any) -> None:
    """RuntimeError unless this names the processor, or is its OrtDevice."""
    if str(getattr(device_type, "kind", device_type)).lower() != "cpu":
        raise RuntimeError(
            f"armnet's stand-in for onnxruntime runs on the processor; there is no device {device_type!r}"
        )
