"""The source of operators' random numbers."""

from __future__ import annotations

import numpy as np

from runtime_arm.netdef import OperatorDef


def generator(op: OperatorDef) -> np.random.RandomState:
    """A generator, seeded by the argument ``seed`` (ONNX), else by the device option (Caffe2), else by the system."""
    argument = op.argument("seed")
    if argument is not None and argument.kind in ("f", "i"):
        return np.random.RandomState(int(op.get_float("seed") if argument.f is not None else op.get_int("seed")))
    seed = op.device_option.random_seed if op.device_option is not None else None
    return np.random.RandomState(seed)
