"""Stand-ins for other runtimes: programs that import onnxruntime, tflite_runtime, caffe or caffe2 run on armnet,
unchanged.

    import armnet.standins

    armnet.standins.install("onnxruntime", "tflite_runtime")
    import onnxruntime          # where the real one is missing, this is armnet.standins.onnxruntime

``armnet exec PROGRAM`` does the same from outside, ``armnet standin install`` for every program of an environment.
Modules: ``armnet.standins.onnxruntime``, ``armnet.standins.tflite_runtime``, which also answers to the name
ai_edge_litert, ``.tflite_support``, ``.tensorflow``, of which there is ``tf.lite`` alone, ``.caffe`` and ``.caffe2``.
docs/standins.md lists what holds and what does not.
"""

from __future__ import annotations

from armnet.standins.installing import install

__all__ = ["install"]
