"""A stand-in for tflite_runtime, and for ai_edge_litert, its successor: the Interpreter, on armnet's runtime.

    from armnet.standins.tflite_runtime.interpreter import Interpreter

    interpreter = Interpreter("model.tflite")
    interpreter.allocate_tensors()

Models are translated and optimised when their tensors are allocated. What armnet cannot honour is refused, or noted
once in the log. docs/standins.md lists what holds and what does not. Names are imported when they are first used.
"""

from __future__ import annotations

from armnet.standins.packages import PACKAGES
from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"interpreter": f"{__name__}.interpreter"})

__version__ = PACKAGES["tflite_runtime"].version
