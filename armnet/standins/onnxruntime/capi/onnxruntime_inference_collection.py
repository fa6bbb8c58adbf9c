"""Where onnxruntime keeps sessions and values."""

from __future__ import annotations

from armnet.standins.onnxruntime.binding import IOBinding
from armnet.standins.onnxruntime.devices import OrtDevice
from armnet.standins.onnxruntime.session import InferenceSession, Session
from armnet.standins.onnxruntime.values import OrtValue

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "Session"]
