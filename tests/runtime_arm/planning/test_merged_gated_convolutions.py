"""A plan merges squeeze-and-excitation's product with the convolution behind it: when, and what is visible outside."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_network_close
from runtime_arm import Predictor
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair

MERGED, APART = "armnet.GatedConv", "onnx.Mul"


def pair(outputs: Tuple[str, ...] = ("y",)) -> Pair:
    """x - 3x3 depthwise - f; its means, by 1x1 and Sigmoid, are the gate g; p = f g; y = 1x1 of p."""
    ops = (
        OperatorDef.of("ConvRelu", ["x", "d_w"], ["f"], kernel=3, pad=1, group=32),
        OperatorDef.of("AveragePool", ["f"], ["m"], global_pooling=1),
        OperatorDef.of("Conv", ["m", "s_w"], ["s"], kernel=1),
        OperatorDef.of("Sigmoid", ["s"], ["g"]),
        OperatorDef.of("Mul", ["f", "g"], ["p"], domain="onnx"),
        OperatorDef.of("Conv", ["p", "p_w", "p_b"], ["y"], kernel=1),
    )
    draw = np.random.default_rng(0)
    shapes = {"d_w": (32, 1, 3, 3), "s_w": (32, 32, 1, 1), "p_w": (16, 32, 1, 1), "p_b": (16,)}
    fills = tuple(fill(name, draw.standard_normal(shape).astype(np.float32)) for name, shape in shapes.items())
    return Pair.from_nets(
        NetDef(name="init", op=fills, external_output=tuple(shapes)),
        NetDef(name="gated", op=ops, external_input=("x", *shapes), external_output=outputs),
    )


def picture(batch: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((batch, 32, 20, 21)).astype(np.float32)


def types(net: Pair, batch: int) -> List[str]:
    with Predictor(net, threads=1) as predictor:
        return [step.op.full_type for step in predictor.plan({"x": (batch, 32, 20, 21)}).steps]


def test_the_product_of_one_image_is_merged() -> None:
    assert MERGED in types(pair(), 1)
    assert APART not in types(pair(), 1)
    assert MERGED not in types(pair(), 2)


def test_an_output_of_the_net_inside_prevents_the_merge() -> None:
    assert MERGED not in types(pair(("p", "y")), 1)


def test_the_merged_step_computes_the_same() -> None:
    x = picture(2)
    with Predictor(pair(), threads=1) as predictor:
        together = [predictor.run({"x": x[i : i + 1]})["y"] for i in range(2)]
        assert_network_close(np.concatenate(together), predictor.run({"x": x})["y"])


@pytest.mark.parametrize("threads", [1, 2])
def test_fetching_and_paranoid_runs_change_no_result(threads: int) -> None:
    x = picture(1)
    with Predictor(pair(), threads=threads) as predictor:
        alone, kept = predictor.run({"x": x}), predictor.run({"x": x}, keep=["f", "p"])
        np.testing.assert_array_equal(alone["y"], kept["y"])
    run_paranoid(pair(), {"x": x})
