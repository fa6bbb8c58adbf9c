"""A stand-in for that part of tflite_support which reads the metadata of models: ``tflite_support.metadata``."""

from __future__ import annotations

from armnet.standins.packages import PACKAGES
from runtime_arm.imports import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"metadata": f"{__name__}.metadata"})

__version__ = PACKAGES["tflite_support"].version
