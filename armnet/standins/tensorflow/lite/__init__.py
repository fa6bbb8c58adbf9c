"""``tf.lite``: the Interpreter of armnet's stand-in for tflite_runtime. There is no converter."""

from __future__ import annotations

from armnet.standins.failures import lazy_names_or

__getattr__, __dir__ = lazy_names_or(
    "armnet's stand-in for tensorflow runs .tflite files, tf.lite.Interpreter; it has no tf.lite.{name}",
    __name__,
    {
        "Interpreter": "armnet.standins.tflite_runtime.interpreter",
        "experimental": f"{__name__}.experimental",
        "python": f"{__name__}.python",
    },
)
