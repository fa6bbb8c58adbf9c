"""OrtDevice: where a value lies. Here that is always the processor's memory."""

from __future__ import annotations

from typing import Any

from armnet.standins.notes import Standin


class OrtDevice(Standin):
    """``OrtDevice.make("cpu", 0)``. RuntimeError for any other device."""

    __slots__ = ("_id",)
    _package = "onnxruntime"

    def __init__(self, device_id: int = 0):
        self._id = device_id

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> OrtDevice:
        """The device of this name."""
        require_cpu(ort_device_name)
        return OrtDevice(device_id)

    @staticmethod
    def cpu() -> int:
        """The number of this kind of device."""
        return 0

    @staticmethod
    def default_memory() -> int:
        """The number of this kind of memory."""
        return 0

    def device_type(self) -> str:
        """The kind of device."""
        return "cpu"

    def device_id(self) -> int:
        """The number of the device among those of its kind."""
        return self._id

    def device_vendor_id(self) -> int:
        """The vendor; a processor has none here."""
        return 0

    def device_mem_type(self) -> int:
        """The kind of memory."""
        return 0


def require_cpu(device_type: Any) -> None:
    """RuntimeError unless this names the processor."""
    if str(device_type).lower() != "cpu":
        raise RuntimeError(
            f"armnet's stand-in for onnxruntime runs on the processor; there is no device {device_type!r}"
        )
