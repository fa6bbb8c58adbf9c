"""``caffe2.python.modeling``, in which programs look for ``initializers`` and ``parameter_info``."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{name}" for name in ("initializers", "parameter_info")})
