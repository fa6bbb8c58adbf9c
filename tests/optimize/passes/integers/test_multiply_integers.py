"""Convolutions and matrix products between DequantizeLinear and QuantizeLinear multiply the integers themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimize.passes.integers.multiply_integers import PASS
from tests.optimize.nets import applied, refusals
from tests.optimize.passes.integers.qdq import DQ, PARAMETERS, assert_keeps_integers, qdq, types

IMAGE = {"x": (2, 4, 7, 6)}
ROWS = {"x": (3, 5)}
W = f"{DQ}(w, ws, wz) -> W  axis=0"
B = f"{DQ}(b, bs) -> B  axis=0"
M = f"{DQ}(m, ms, i) -> M"
CONV = "Conv(X, W, B) -> a  kernels=[3, 3]  pads=[1, 1, 1, 1]  strides=[2, 1]"


@pytest.mark.parametrize(
    ("net", "made"),
    [
        (qdq(W, B, CONV.replace("-> a", "-> y"), shapes=IMAGE), ["onnx.QLinearConv"]),
        (qdq(W, B, CONV, "Relu(a) -> y", shapes=IMAGE), ["onnx.QLinearConv", "armnet.LookUp"]),
        (qdq(W, B, CONV, "Relu(a) -> y", shapes=IMAGE, out="t, o", more={"o": np.uint8(0)}), ["onnx.QLinearConv"]),
        (qdq(W, B, CONV, "Clip(a) -> y  min=0.0  max=6.0", shapes=IMAGE), ["onnx.QLinearConv", "armnet.LookUp"]),
        (qdq(W, 'onnx.Conv(X, W) -> y  dilations=[2, 2]  auto_pad="SAME_UPPER"', shapes=IMAGE), ["onnx.QLinearConv"]),
        (qdq(W, "Conv(X, W, f) -> y  kernel=3", shapes=IMAGE, more={"f": np.ones(6, "f4")}), ["onnx.QLinearConv"]),
        (qdq(M, f"{DQ}(c, cs) -> C", "FC(X, M, C) -> y", shapes=ROWS), ["com.microsoft.QGemm"]),
        (qdq(M, "onnx.Gemm(X, M) -> y  transB=1", shapes=ROWS), ["com.microsoft.QGemm"]),
        (qdq(M, "onnx.MatMul(X, M) -> y", shapes={"x": (2, 3, 6)}), ["onnx.QLinearMatMul"]),
        (qdq("onnx.MatMul(X, Z) -> y", shapes={"x": (2, 3, 4), "z": (2, 4, 3)}, more={"z": np.uint8(3)}), None),
    ],
    ids=lambda value: value[0].split("\n")[-3].strip()[:60] if isinstance(value, tuple) else "",
)
def test_products(net: Any, made: Any) -> None:
    if made is not None:
        assert types(applied(PASS, *net)) == [one for one in made if one]
        assert_keeps_integers(PASS, net)


def test_without_integers_behind_a_product_gives_floats() -> None:
    text, weights, shapes = qdq(M, f"{DQ}(c, cs) -> C", "FC(X, M, C) -> a", "Tanh(a) -> y", shapes=ROWS)
    assert types(applied(PASS, text, weights, shapes)) == ["com.microsoft.QGemm", "Tanh"]
    floats = qdq(M, "FC(X, M, f) -> a", "Tanh(a) -> y", shapes=ROWS, more={"f": np.arange(6, dtype=np.float32)})
    assert types(applied(PASS, *floats)) == ["com.microsoft.MatMulIntegerToFloat", "Tanh"]
    product = qdq(M, "onnx.MatMul(X, M) -> a", "Tanh(a) -> y", shapes={"x": (2, 3, 6)})
    assert types(applied(PASS, *product)) == ["com.microsoft.MatMulIntegerToFloat", "Tanh"]
    assert_keeps_integers(PASS, (text, weights, shapes), floats, product)


def test_a_bias_of_floats_becomes_whole_numbers_of_sums() -> None:
    bias = np.linspace(-1, 1, 6).astype(np.float32)
    outcome = applied(PASS, *qdq(W, "Conv(X, W, f) -> y  kernel=3", shapes=IMAGE, more={"f": bias}))
    unit = PARAMETERS["bs"].astype(np.float64)
    np.testing.assert_array_equal(outcome.weight("f_int32"), np.rint(bias / unit).astype(np.int32))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (qdq(W, "Conv(x, W) -> y  kernel=3", shapes=IMAGE), "'x' is not made of integers"),
        (
            qdq(W, 'Conv(X, W) -> y  kernel=3  order="NHWC"', shapes={"x": (1, 7, 3, 4)}),
            "its padding depends on sizes, or its channels are last",
        ),
        (
            qdq(W, "Conv(X, W) -> y  kernel=3", shapes=IMAGE, out="t, o", more={"o": np.uint16(3)}),
            "the integers are uint16",
        ),
        (
            qdq(W, f"{DQ}(b, t) -> B", "Conv(X, W, B) -> y  kernel=3", shapes=IMAGE),
            "the scale of the bias 'B' is not that of the sums",
        ),
        (
            qdq(M, "FC(X, M, f) -> y", shapes=ROWS, out="q, u", more={"f": np.ones(6, "f4"), "q": np.float32(1e-4)}),
            "the bias 'f' is float, and sums are too coarse to hold it",
        ),
        (
            qdq(
                f"{DQ}(m, r, p) -> M  axis=0",
                "onnx.MatMul(X, M) -> y",
                shapes={"x": (3, 6)},
                more={"r": np.ones(6, "f4"), "p": np.zeros(6, np.int8)},
            ),
            "the scales of the second factor are not one per column",
        ),
    ],
)
def test_others_stay(net: Any, reason: str) -> None:
    assert any(reason in one for one in refusals(PASS, *net)), refusals(PASS, *net)
