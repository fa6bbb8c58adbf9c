"""``tensorflow.lite.python``, in which programs look for the module ``interpreter``."""

from __future__ import annotations

from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"interpreter": f"{__name__}.interpreter"})
