"""``caffe2.python.predictor``, in which programs look for ``mobile_exporter``."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"mobile_exporter": f"{__name__}.mobile_exporter"})
