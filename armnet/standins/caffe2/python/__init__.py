"""``caffe2.python``, in which programs look for ``core``, ``workspace``, ``brew``, ``optimizer`` and others."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

_MODULES = ("brew", "core", "model_helper", "modeling", "optimizer", "predictor", "utils", "workspace")
__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in _MODULES})
