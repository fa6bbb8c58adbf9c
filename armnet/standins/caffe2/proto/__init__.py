"""``caffe2.proto``, in which programs look for the module ``caffe2_pb2``."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"caffe2_pb2": f"{__name__}.caffe2_pb2"})
