"""Where onnxruntime keeps its exceptions, options and functions."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, List

_HOMES = ("failures", "options", "machine", "nodes", "devices", "values", "core", "memory", "sparse")


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        for home in _HOMES:
            module = import_module(f"armnet.standins.onnxruntime.{home}")
            if name in vars(module) and _is_home(module, name):
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r}, armnet's stand-in, has no attribute {name!r}")


def __dir__() -> List[str]:
    from armnet.standins.onnxruntime import failures, machine, options

    return [name for module in (failures, machine, options) for name in vars(module) if _is_home(module, name)]


def _is_home(module: ModuleType, name: str) -> bool:
    return not name.startswith("_") and getattr(vars(module)[name], "__module__", None) == module.__name__
