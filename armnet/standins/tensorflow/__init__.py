"""A stand-in for that part of tensorflow which runs .tflite files: ``tf.lite``, with armnet's Interpreter.

    import armnet.standins.tensorflow as tf

    interpreter = tf.lite.Interpreter("model.tflite")

Everything else of tensorflow is missing, and says so. Names are imported when they are first used.
"""

from __future__ import annotations

import logging
from typing import Any

from armnet.standins.packages import PACKAGES
from runtime_arm.imports import lazy_names

_found, __dir__ = lazy_names(__name__, {"lite": f"{__name__}.lite"})


def __getattr__(name: str) -> Any:
    try:
        return _found(name)
    except AttributeError:
        raise AttributeError(f"armnet's stand-in for tensorflow has tf.lite alone, no tf.{name}") from None


__version__ = PACKAGES["tensorflow"].version


def get_logger() -> logging.Logger:
    """The logger of TensorFlow, which programs silence; armnet says nothing there."""
    return logging.getLogger("tensorflow")
