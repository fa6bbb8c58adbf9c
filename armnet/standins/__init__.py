"""Stand-ins for other runtimes: programs that import onnxruntime or tflite_runtime run on armnet, unchanged.

    import armnet.standins

    armnet.standins.install("onnxruntime", "tflite_runtime")
    import onnxruntime          # where the real one is missing, this is armnet.standins.onnxruntime

``armnet exec PROGRAM`` does the same from outside, ``armnet standin install`` for every program of an environment.
Modules: ``armnet.standins.onnxruntime`` and ``armnet.standins.tflite_runtime``; the latter also answers to the name
ai_edge_litert. docs/standins.md lists what holds and what does not.
"""

from __future__ import annotations

from armnet.standins.installing import install

__all__ = ["install"]
