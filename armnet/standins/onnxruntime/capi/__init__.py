"""The modules of onnxruntime that its documentation does not name, but that programs import."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

_NAMES = ("_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state")

__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in _NAMES})
