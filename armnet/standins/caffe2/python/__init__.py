"""``caffe2.python``, in which programs look for ``core``, ``utils`` and ``workspace``."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in ("core", "utils", "workspace")})
