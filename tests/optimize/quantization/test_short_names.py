"""What a quantised pair stores has short names, and computes the same."""

from __future__ import annotations

from typing import Dict

import numpy as np

from optimize import quantize
from optimize.quantization.short_names import with_short_names
from runtime_arm import Predictor
from runtime_arm.netdef import Array
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import pair_of

NET = """
    net "long": x, a_weight_of_a_long_name, a_bias_of_a_long_name, w -> y
    FC(x, a_weight_of_a_long_name, a_bias_of_a_long_name) -> a_blob_of_a_long_name
    FC(a_blob_of_a_long_name, w, a_bias_of_a_long_name) -> y
"""
BRANCHES = """
    net "choice": x, c, a_weight_of_a_branch, a_bias_of_a_branch -> y
    If(c) -> y  then_net={
        net "then": -> z
        FC(x, a_weight_of_a_branch, a_bias_of_a_branch) -> z
    } else_net={
        net "else": -> z
        FC(x, a_weight_of_a_branch, a_bias_of_a_branch) -> z
    }
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


def test_constants_and_unpacked_weights_have_short_names() -> None:
    net = pair(NET, "a_weight_of_a_long_name w", "a_bias_of_a_long_name")
    small = quantize(net)
    stored = {name for op in small.init_net.op for name in op.output}
    unpacked = {op.output[0] for op in small.predict_net.op if op.type == "DequantizeLinear"}
    assert max(map(len, stored | unpacked)) <= 12
    assert "w" in unpacked, "a short name stays"
    assert "a_blob_of_a_long_name" in {name for op in small.predict_net.op for name in op.output}
    assert stored == set(small.predict_net.external_input) - {"x"}


def test_only_names_change() -> None:
    net = pair(NET, "a_weight_of_a_long_name w", "a_bias_of_a_long_name")
    small = with_short_names(net)
    assert len(small.init_net.to_bytes()) < len(net.init_net.to_bytes())
    np.testing.assert_array_equal(answer(small), answer(net))
    assert with_short_names(small) == small


def test_what_a_branch_knows_by_name_keeps_it() -> None:
    net = pair(BRANCHES, "a_weight_of_a_branch", "a_bias_of_a_branch")
    assert with_short_names(net) == net
