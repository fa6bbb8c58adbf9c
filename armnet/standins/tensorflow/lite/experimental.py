"""``tf.lite.experimental``: the kernels to take, and delegates, which are refused."""

from __future__ import annotations

from armnet.standins.tflite_runtime.interpreter import OpResolverType, load_delegate

__all__ = ["OpResolverType", "load_delegate"]
