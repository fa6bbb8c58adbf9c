"""A stand-in for that part of tensorflow which runs .tflite files: ``tf.lite``, with armnet's Interpreter.

    import armnet.standins.tensorflow as tf

    interpreter = tf.lite.Interpreter("model.tflite")

Everything else of tensorflow is missing, and says so. Names are imported when they are first used.
"""

from __future__ import annotations

import logging

from armnet.standins.failures import lazy_names_or
from armnet.standins.packages import PACKAGES

__getattr__, __dir__ = lazy_names_or(
    "armnet's stand-in for tensorflow has tf.lite alone, no tf.{name}", __name__, {"lite": f"{__name__}.lite"}
)


__version__ = PACKAGES["tensorflow"].version


def get_logger() -> logging.Logger:
    """The logger of TensorFlow, which programs silence; armnet says nothing there."""
    return logging.getLogger("tensorflow")
