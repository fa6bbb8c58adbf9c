"""What a quantised pair stores has no long names, and computes the same."""

from __future__ import annotations

from typing import Dict

import numpy as np

from optimize import quantize
from optimize.short_names import LONGEST, with_short_names
from runtime_arm import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

WEIGHT, BIAS, BLOB = (f"model/conv2d_1/{what}/ReadVariableOp/resource" for what in ("Conv2D", "BiasAdd", "Relu"))
USUAL = "features.10.conv.weight"
NET = f"""
    net "long": x, {WEIGHT}, {BIAS}, {USUAL} -> y
    FC(x, {WEIGHT}, {BIAS}) -> {BLOB}
    FC({BLOB}, {USUAL}, {BIAS}) -> y
"""
BRANCHES = f"""
    net "choice": x, c, {WEIGHT}, {BIAS} -> y
    If(c) -> y  then_net={{
        net "then": -> z
        FC(x, {WEIGHT}, {BIAS}) -> z
    }} else_net={{
        net "else": -> z
        FC(x, {WEIGHT}, {BIAS}) -> z
    }}
"""


def pair(text: str, weights: str, bias: str) -> Pair:
    rng = np.random.default_rng(0)
    shapes = {**dict.fromkeys(weights.split(), (32, 32)), bias: (32,)}
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return pair_of(text, values, {"x": (2, 32), "c": ()} if "c," in text else {"x": (2, 32)})


def answer(pair: Pair) -> Array:
    feeds: Dict[str, Array] = {"x": np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32)}
    with Predictor(pair, threads=1) as predictor:
        return predictor.run(feeds)["y"]


def test_long_names_of_constants_and_unpacked_weights_become_short() -> None:
    net = pair(NET, f"{WEIGHT} {USUAL}", BIAS)
    small = quantize(net)
    stored = {name for op in small.init_net.op for name in op.output}
    unpacked = {op.output[0] for op in small.predict_net.op if op.type == "DequantizeLinear"}
    assert max(map(len, stored | unpacked)) <= LONGEST
    assert USUAL in unpacked, "by such a name a layer's weights are found"
    assert BLOB in {name for op in small.predict_net.op for name in op.output}
    assert stored == set(small.predict_net.external_input) - {"x"}


def test_only_names_change() -> None:
    net = pair(NET, f"{WEIGHT} {USUAL}", BIAS)
    small = with_short_names(net)
    assert len(small.init_net.to_bytes()) < len(net.init_net.to_bytes())
    np.testing.assert_array_equal(answer(small), answer(net))
    assert with_short_names(small) == small


def test_what_a_branch_knows_by_name_keeps_it() -> None:
    net = pair(BRANCHES, WEIGHT, BIAS)
    assert with_short_names(net) == net
