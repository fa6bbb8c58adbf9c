"""``tensorflow.lite.python.interpreter``: what tflite_runtime.interpreter has."""

from __future__ import annotations

from armnet.standins.tflite_runtime.interpreter import (
    Delegate,
    Interpreter,
    InterpreterWithCustomOps,
    OpResolverType,
    SignatureRunner,
    load_delegate,
)

__all__ = ["Delegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner", "load_delegate"]
