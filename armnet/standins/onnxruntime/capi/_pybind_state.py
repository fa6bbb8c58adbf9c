"""The same names as ``onnxruntime_pybind11_state``, under the older name of that module."""

from __future__ import annotations

from typing import Any, List

from armnet.standins.onnxruntime.capi import onnxruntime_pybind11_state


def __getattr__(name: str) -> Any:
    return getattr(onnxruntime_pybind11_state, name)


def __dir__() -> List[str]:
    return dir(onnxruntime_pybind11_state)
