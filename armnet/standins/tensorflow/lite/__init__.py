"""``tf.lite``: the Interpreter of armnet's stand-in for tflite_runtime. There is no converter."""

from __future__ import annotations

from typing import Any

from runtime_arm.imports import lazy_names

_found, __dir__ = lazy_names(
    __name__,
    {
        "Interpreter": "armnet.standins.tflite_runtime.interpreter",
        "experimental": f"{__name__}.experimental",
        "python": f"{__name__}.python",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _found(name)
    except AttributeError:
        raise AttributeError(
            f"armnet's stand-in for tensorflow runs .tflite files, tf.lite.Interpreter; it has no tf.lite.{name}"
        ) from None
