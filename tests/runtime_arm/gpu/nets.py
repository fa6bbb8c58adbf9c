"""A small net for tests of placement."""

from __future__ import annotations

import numpy as np

from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.pair import Pair

SHAPE = (1, 6, 8, 8)


def net() -> Pair:
    """Two branches, an operator that the device lacks in one of them, a blob that is overwritten, and a reshape."""
    random = np.random.default_rng(2)
    weights = {
        "w1": random.standard_normal((8, 6, 3, 3)) / 7,
        "w2": random.standard_normal((8, 8, 1, 1)) / 3,
        "w3": random.standard_normal((8, 8, 3, 3)) / 8,
        "fc": random.standard_normal((5, 16 * 64)) / 32,
        "b": random.standard_normal(5),
    }
    init = NetDef(
        name="init",
        op=tuple(
            OperatorDef.of(
                "GivenTensorFill", [], [name], shape=list(w.shape), values=w.astype(np.float32).reshape(-1).tolist()
            )
            for name, w in weights.items()
        ),
    )
    ops = (
        OperatorDef.of("Conv", ["x", "w1"], ["a"], kernel=3, pad=1),
        OperatorDef.of("Relu", ["a"], ["a"]),
        OperatorDef.of("Conv", ["a", "w2"], ["left"], kernel=1),
        OperatorDef.of("Cos", ["a"], ["c"]),
        OperatorDef.of("Conv", ["c", "w3"], ["right"], kernel=3, pad=1),
        OperatorDef.of("Sigmoid", ["right"], ["right"]),
        OperatorDef.of("Concat", ["left", "right"], ["joined", "lengths"], axis=1),
        OperatorDef.of("Reshape", ["joined"], ["flat", "old"], shape=[1, -1]),
        OperatorDef.of("FC", ["flat", "fc", "b"], ["y"]),
        OperatorDef.of("Softmax", ["y"], ["p"]),
    )
    predict = NetDef(name="net", op=ops, external_input=("x", *weights), external_output=("p", "left"))
    return Pair.from_nets(init, predict)


X = np.random.default_rng(3).standard_normal(SHAPE).astype(np.float32)
