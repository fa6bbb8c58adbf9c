"""Where onnxruntime keeps sessions and values."""

from __future__ import annotations

from armnet.standins.onnxruntime.binding import IOBinding
from armnet.standins.onnxruntime.devices import OrtDevice
from armnet.standins.onnxruntime.providers import check_and_normalize_provider_args
from armnet.standins.onnxruntime.session import InferenceSession, Session
from armnet.standins.onnxruntime.sparse import SparseTensor
from armnet.standins.onnxruntime.values import OrtValue

__all__ = [
    "IOBinding",
    "InferenceSession",
    "OrtDevice",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
]
