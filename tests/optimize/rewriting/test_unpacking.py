"""Weights that are unpacked in each run: the same results, less memory, kernels that allocate nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference
from device_tests.suite.tolerance import assert_close
from optimize import optimize, quantize
from optimize.quantization.packing.formats import FORMATS
from optimize.rewriting.unpacking import LOAD, RUN, unpacked_nbytes, with_unpacking
from runtime_arm import Predictor
from runtime_arm.errors import UsageError
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.optimize.nets import numbers, pair_of

NET = """
    net "layers": x, a, b, c, d, e -> y
    Conv(x, a, d) -> p  kernel=3 pad=1
    Relu(p) -> q
    Conv(q, b, d) -> r  kernel=3 pad=1
    Add(q, r) -> s
    AveragePool(s) -> t  global_pooling=1
    FC(t, c, e) -> y
"""


def pair() -> Pair:
    rng = np.random.default_rng(2)
    shapes = {"a": (64, 3, 3, 3), "b": (64, 64, 3, 3), "c": (40, 64), "d": (64,), "e": (40,)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) / 8 for name, shape in shapes.items()}
    return pair_of(NET, weights, {"x": (1, 3, 6, 6)})


@pytest.mark.parametrize("weights", FORMATS)
def test_results_are_the_same_in_less_memory(weights: str) -> None:
    small = quantize(pair(), None, weights)
    lazy = small.replace(predict_net=with_unpacking(small.predict_net, RUN))
    feeds = {"x": np.random.default_rng(3).standard_normal((1, 3, 6, 6)).astype(np.float32)}
    assert_close(numbers(lazy, feeds)["y"], numbers(small, feeds)["y"], terms=3 * 9 + 64 * 9 + 64)
    unpacked = unpacked_nbytes(small)
    assert unpacked == 4 * (64 * 3 * 9 + 64 * 64 * 9 + 40 * 64)
    with Predictor(small, threads=1) as one, Predictor(lazy, threads=1) as other:
        floats, more = one.plan().arena_nbytes, other.plan().arena_nbytes
        steps = {step.op.type for step in other.plan().steps}
    assert steps >= {op.type for op in small.predict_net.op if op.type.startswith(("Unpack", "Half", "Dequant"))}
    assert more - floats < unpacked, "only one layer's floats at a time"
    assert with_unpacking(lazy.predict_net, LOAD) == small.predict_net


def test_plans_for_other_sizes_share_what_is_unpacked() -> None:
    small = quantize(pair(), None, "int8")
    open_batch = small.replace(inputs=(TensorInfo("x", (None, 3, 6, 6), "float32"),))
    with Predictor(open_batch, threads=1) as predictor:
        found = []
        for batch in (1, 2):
            steps = predictor.plan({"x": (batch, 3, 6, 6)}).steps
            read = [spec.value for step in steps for spec in step.in_specs if spec is not None]
            found.append([value for value in read if value is not None and value.nbytes >= 64 * 27 * 4])
    assert len(found[0]) == 3
    assert all(one is other for one, other in zip(*found))


def test_small_weights_are_not_folded_either() -> None:
    net = 'net "n": x, q, s, z -> y\n onnx.DequantizeLinear(q, s, z) -> w\n Mul(x, w) -> y'
    weights = {"q": np.int8(3), "s": np.float32(0.5), "z": np.int8(1)}
    small = pair_of(net, weights, {"x": (2, 3)})
    lazy = optimize(small.replace(predict_net=with_unpacking(small.predict_net, RUN)))
    assert [op.type for op in lazy.predict_net.op] == ["DequantizeLinear", "Mul"]
    np.testing.assert_array_equal(numbers(lazy, {"x": np.ones((2, 3), np.float32)})["y"], np.ones((2, 3)))


def test_another_time_is_refused() -> None:
    with pytest.raises(UsageError, match="weights can be unpacked at load or in each run; got 'never'"):
        with_unpacking(pair().predict_net, "never")


@pytest.mark.parametrize("weights", FORMATS)
def test_files_of_other_formats_are_written(weights: str) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed to write models with")
    from exporter.to_onnx.export import to_onnx

    small = quantize(pair(), None, weights)
    lazy = small.replace(predict_net=with_unpacking(small.predict_net, RUN))
    assert to_onnx(lazy) == to_onnx(small)


BYTES = np.random.default_rng(1).integers(0, 256, (70, 16)).astype(np.uint8)
CASES: Any = {
    "blocks": ("UnpackBlocks", [BYTES, np.linspace(0.5, 2, 70).astype(np.float16)], {"shape": [47, 47]}),
    "int4": ("UnpackInt4", [BYTES.reshape(-1)[:1091]], {"shape": [3, 684], "exponent": 120}),
    "int4, many": ("UnpackInt4", [np.resize(BYTES, 5313)], {"shape": [9999], "exponent": 110}),
    "palette": ("UnpackPalette", [BYTES.reshape(-1)[:1119], np.arange(16, dtype=np.float32) - 7], {"shape": [3, 746]}),
    "bfloat16": ("UnpackBfloat16", [np.arange(0x3F00, 0x4100, dtype=np.uint16)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels(name: str) -> None:
    type, inputs, arguments = CASES[name]
    names = [f"x{index}" for index in range(len(inputs))]
    op = OperatorDef.of(type, names, ["w"], domain="armnet", each_run=1, **arguments)
    assert assert_engines_match_reference(op, inputs, constants=range(len(inputs))) == ["NUMPY"]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_for_each_index_of_an_axis(axis: int) -> None:
    x = np.random.default_rng(5).integers(-128, 128, (4, 6, 5)).astype(np.int8)
    scale = np.linspace(0.1, 1, x.shape[axis]).astype(np.float32)
    zero = np.arange(x.shape[axis]).astype(np.int8)
    op = OperatorDef.of("DequantizeLinear", ["x", "s", "z"], ["y"], domain="onnx", axis=axis)
    assert "NUMPY_AXIS" in assert_engines_match_reference(op, [x, scale, zero], constants=[1, 2])
