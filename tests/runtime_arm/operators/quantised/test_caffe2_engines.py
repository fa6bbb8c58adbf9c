"""Caffe2's Int8 operators: every engine against the reference kernels, which recorded runs verify; refusals."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel, specs_of, supporting_engines
from runtime_arm.errors import ArgumentError, ShapeError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import QuantizedTensor

WEIGHTS = (1, 2)


def quantised(seed: int, *shape: int, scale: float = 0.5, zero_point: int = 120) -> QuantizedTensor:
    values = np.random.default_rng(seed).integers(0, 255, shape, np.uint8, endpoint=True)
    return QuantizedTensor(np.asarray(values), scale, zero_point)


def bias(count: int, scale: float = 1.0) -> QuantizedTensor:
    return QuantizedTensor(np.random.default_rng(count).integers(-9999, 9999, count).astype(np.int32), scale, 0)


def int8(type: str, *inputs: str, scale: float = 0.5, zero_point: int = 120, **arguments: Any) -> OperatorDef:
    return OperatorDef.of(type, inputs or ("X",), ["Y"], Y_scale=scale, Y_zero_point=zero_point, **arguments)


CONVOLUTIONS: Dict[str, Tuple[Tuple[int, ...], Tuple[int, ...], Dict[str, Any]]] = {
    "pointwise": ((2, 7, 5, 6), (8, 1, 1, 6), {"kernel": 1}),
    "3x3": ((1, 9, 8, 3), (4, 3, 3, 3), {"kernel": 3, "pad": 1}),
    "strided, uneven pads": ((2, 11, 10, 3), (4, 3, 3, 3), {"kernel": 3, "pads": [1, 0, 2, 1], "strides": [2, 3]}),
    "dilated": ((1, 12, 12, 2), (3, 3, 3, 2), {"kernel": 3, "dilation": 2, "pad": 2}),
    "grouped": ((2, 6, 6, 6), (9, 3, 3, 2), {"kernel": 3, "group": 3, "pad": 1}),
    "depthwise": ((2, 7, 7, 5), (5, 3, 3, 1), {"kernel": 3, "group": 5, "pad": 1, "stride": 2}),
    "sums beyond float32": ((1, 5, 5, 128), (2, 3, 3, 128), {"kernel": 3}),
    "many blocks": ((2, 70, 60, 16), (8, 3, 3, 16), {"kernel": 3, "pad": 1}),
}


@pytest.mark.parametrize("type", ["Int8Conv", "Int8ConvRelu"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_exact_in_every_engine(name: str, type: str) -> None:
    x_shape, w_shape, arguments = CONVOLUTIONS[name]
    scale = 0.9 * float(np.sqrt(np.prod(w_shape[1:])))
    op = int8(type, "X", "W", "b", scale=scale, order="NHWC", **arguments)
    operands = [quantised(1, *x_shape), quantised(2, *w_shape, zero_point=3), bias(w_shape[0])]
    engines = ["INT8_DEPTHWISE", "INT8"] if name == "depthwise" else ["INT8"]
    assert assert_engines_match_reference(op, operands, constants=WEIGHTS) == engines


@pytest.mark.parametrize(("x_shape", "filters"), [((3, 40), 7), ((2, 3, 3, 5), 4), ((1, 3000), 2), ((300, 20), 50)])
def test_fully_connected_layers_are_exact_in_every_engine(x_shape: Tuple[int, ...], filters: int) -> None:
    terms = int(np.prod(x_shape[1:]))
    op = int8("Int8FC", "X", "W", "b", scale=float(np.sqrt(terms)))
    operands = [quantised(3, *x_shape), quantised(4, filters, terms, zero_point=250), bias(filters)]
    assert assert_engines_match_reference(op, operands, constants=WEIGHTS) == ["INT8"]


def test_computed_weights_are_left_to_the_reference_kernel() -> None:
    operands = [quantised(3, 2, 8), quantised(4, 3, 8), bias(3)]
    assert supporting_engines(int8("Int8FC", "X", "W", "b"), operands) == []


MOVES = [
    (int8("Int8Concat", "A", "B", axis=1), [quantised(1, 2, 3, 4), quantised(2, 2, 5, 4, scale=0.1, zero_point=0)]),
    (int8("Int8Concat", "A", "B", order="NHWC"), [quantised(1, 1, 2, 3, 4), quantised(2, 1, 2, 3, 5)]),
    (int8("Int8Slice", dim=1, start_idx=1, end_idx=-2), [quantised(1, 3, 6, 2)]),
    (int8("Int8Transpose", axes=[2, 0, 1]), [quantised(1, 3, 6, 2)]),
    (int8("Int8ChannelShuffle", group=3, order="NHWC"), [quantised(1, 2, 3, 4, 12)]),
    (int8("Int8ResizeNearest", height_scale=2.0, width_scale=1.5), [quantised(1, 1, 3, 4, 5)]),
    (int8("Int8Relu"), [quantised(1, 50)]),
    (int8("Int8LeakyRelu", scale=0.3, zero_point=9, alpha=0.2), [quantised(1, 70)]),
    (int8("Int8Sigmoid", scale=1 / 256, zero_point=0), [quantised(1, 70, scale=0.03)]),
    (int8("Int8Dequantize"), [quantised(1, 7, 9)]),
]


@pytest.mark.parametrize(("op", "operands"), MOVES, ids=[op.type for op, _ in MOVES])
def test_engines_agree_bit_for_bit(op: OperatorDef, operands: List[Any]) -> None:
    engines = assert_engines_match_reference(op, operands)
    assert "NUMPY" in engines
    for engine in engines:
        np.testing.assert_array_equal(run_kernel(op, operands, engine)[0], run_kernel(op, operands)[0])


SCALES = st.floats(0.0625, 4, width=32) | st.sampled_from([1 / 3, 2 / 3, 0.1, 0.7, 1.1, 1.5, 5 / 3, 2.7])


@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.tuples(SCALES, SCALES))
@settings(max_examples=200)
def test_resizing_divides_in_float32_like_caffe2(image: Tuple[int, int], scales: Tuple[float, float]) -> None:
    x = quantised(1, 1, *image, 3)
    op = int8("Int8ResizeNearest", height_scale=scales[0], width_scale=scales[1])
    pixels = []
    for n, scale in zip(image, map(np.float32, scales)):
        size = int(np.float32(n) * scale)
        pixels.append([min(int(np.float32(i) / scale), n - 1) for i in range(size)])
    expected = np.zeros((1, len(pixels[0]), len(pixels[1]), 3), np.uint8)
    for y, row in enumerate(pixels[0]):
        for x_out, column in enumerate(pixels[1]):
            expected[0, y, x_out] = x.values[0, row, column]
    np.testing.assert_array_equal(run_kernel(op, [x])[0], expected)
    np.testing.assert_array_equal(run_kernel(op, [x], "NUMPY")[0], expected)


def test_quantising_rounds_ties_to_even_and_saturates() -> None:
    x = np.array([-1.25, -0.25, 0.25, 0.75, 1.25, 70, -70, 1e9, -1e9, np.inf, -np.inf, np.nan], np.float32)
    op = int8("Int8Quantize", zero_point=3)
    assert run_kernel(op, [x])[0].tolist() == [1, 3, 3, 5, 5, 143, 0, 255, 0, 0, 0, 0]
    assert assert_engines_match_reference(op, [x]) == ["NUMPY"]


def test_int8_reshape_is_a_view_that_stays_quantised() -> None:
    workspace, x = Workspace(), quantised(5, 2, 3, 4)
    workspace.feed("X", x)
    workspace.feed("shape", np.array([4, -1], np.int64))
    reshape = OperatorDef.of("Int8Reshape", ["X", "shape"], ["Y", "old"], Y_scale=0.5, Y_zero_point=120)
    flatten = OperatorDef.of("Int8Flatten", ["Y"], ["Z"], Y_scale=0.5, Y_zero_point=120, axis=0)
    workspace.run_net_once(NetDef("net", (reshape, flatten)))
    y, z = workspace.fetch("Y"), workspace.fetch("Z")
    np.testing.assert_array_equal(y.values, x.values.reshape(4, 6))
    assert (y.scale, y.zero_point, z.scale, z.zero_point) == (0.5, 120, 0.5, 120)
    assert z.values.shape == (1, 24)


def test_a_computed_shape_keeps_the_output_quantised() -> None:
    workspace, x = Workspace(), quantised(5, 2, 3, 4)
    workspace.feed("X", x)
    workspace.feed("length", np.array([24.0], np.float32))
    net = NetDef(
        "net",
        (
            OperatorDef.of("Cast", ["length"], ["shape"], to=10),
            OperatorDef.of("Int8Reshape", ["X", "shape"], ["Y", "old"], Y_scale=0.5, Y_zero_point=120),
            OperatorDef.of("Int8Dequantize", ["Y"], ["Z"]),
        ),
    )
    workspace.run_net_once(net)
    np.testing.assert_array_equal(workspace.fetch("Y").values, x.values.reshape(24))
    np.testing.assert_array_equal(workspace.fetch("Z"), 0.5 * (x.values.reshape(24).astype(np.float32) - 120))


REFUSED: Dict[str, Tuple[OperatorDef, List[Any], str]] = {
    "order": (int8("Int8MaxPool", kernel=2), [quantised(1, 1, 4, 4, 2)], "order must be NHWC"),
    "another output": (int8("Int8Relu", scale=0.25), [quantised(1, 4)], "quantised like X"),
    "floats": (int8("Int8Relu"), [np.zeros(4, np.float32)], "must be quantised uint8"),
    "multiplier": (
        int8("Int8FC", "X", "W", "b", scale=0.25),
        [quantised(1, 2, 4), quantised(2, 3, 4), bias(3)],
        "Y_scale must be larger",
    ),
    "bias": (int8("Int8FC", "X", "W", "b"), [quantised(1, 2, 4), quantised(2, 3, 4), bias(2)], "one for each of 3"),
    "row": (int8("Int8FC", "X", "W", "b"), [quantised(1, 2, 4), quantised(2, 3, 5), bias(3)], "4 elements per row"),
    "shapes": (int8("Int8Add", "A", "B"), [quantised(1, 2, 4), quantised(2, 4, 2)], "same shape"),
    "ratio": (int8("Int8Add", "A", "B", scale=1e-4), [quantised(1, 2), quantised(2, 2)], "must be in"),
    "scale": (int8("Int8Relu", scale=0.0), [quantised(1, 4)], "positive and finite"),
    "zero point": (int8("Int8Quantize", zero_point=256), [np.zeros(3, np.float32)], "0 to 255"),
    "sigmoid": (int8("Int8Sigmoid"), [quantised(1, 4)], "1/256"),
    "alpha": (int8("Int8LeakyRelu", alpha=1.5), [quantised(1, 4)], "alpha"),
    "dim": (int8("Int8Slice", dim=3, start_idx=0, end_idx=1), [quantised(1, 4, 4)], "dim must be 0 to 1"),
    "axis": (int8("Int8Concat", "A", axis=4), [quantised(1, 4, 4)], "axis must be 0 to 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why(name: str) -> None:
    op, operands, message = REFUSED[name]
    with pytest.raises((ArgumentError, ShapeError), match=message):
        lookup(op).infer(op, specs_of(operands))
