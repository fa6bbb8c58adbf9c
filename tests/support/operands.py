"""Short ways to write operators and operands in tests."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from runtime_arm.netdef import Array, OperatorDef


def caffe2(type: str, inputs: str, outputs: str = "Y", **arguments: Any) -> OperatorDef:
    """``caffe2("Conv", "X W", kernel=3)``: an operator of Caffe2; names are separated by blanks."""
    return OperatorDef.of(type, inputs.split(), outputs.split(), **arguments)


def onnx(type: str, inputs: str, outputs: str = "Y", **arguments: Any) -> OperatorDef:
    """The same for an operator of the domain "onnx"; ``-`` stands for an omitted input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return OperatorDef.of(type, names, outputs.split(), domain="onnx", **arguments)


def tflite(type: str, inputs: str, outputs: str = "Y", **arguments: Any) -> OperatorDef:
    """An operator of the domain "tflite"; the input ``-`` is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return OperatorDef.of(type, names, outputs.split(), domain="tflite", **arguments)


def random(shape: Sequence[int], seed: int = 0, *, offset: float = 0.0, dtype: Any = np.float32) -> Array:
    """Normally distributed numbers around ``offset``; the same for the same seed."""
    return (np.random.default_rng(seed).standard_normal(tuple(shape)) + offset).astype(dtype)
