"""Every kernel of the device, float and half, against the reference operators."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import pytest

from device_tests.suite.islands import on_device
from device_tests.suite.tolerance import UNIT, assert_close
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.lowering.convolution import DIRECT, algorithm_of
from runtime_arm.gpu.lowering.registry import refusal
from runtime_arm.gpu.programs import Programs
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import lookup
from runtime_arm.registry.specs import TensorSpec

HALVES = UNIT["float16"] / UNIT["float32"]


class Case(NamedTuple):
    """An operator, the shapes of its inputs, how many of them are constants, and the terms of its sums."""

    op: OperatorDef
    shapes: Sequence[Sequence[int]]
    constants: int = 0
    terms: int = 1
    amplification: float = 1.0


def op(type: str, inputs: int = 1, domain: str = "", engine: str = "", **arguments: Any) -> OperatorDef:
    names = [f"x{i}" for i in range(inputs)]
    made = OperatorDef.of(type, names, ["y"], domain=domain, **arguments)
    return made.replace(engine=engine) if engine else made


def conv(
    x: Sequence[int],
    w: Sequence[int],
    *,
    bias: bool = True,
    engine: str = "",
    type: str = "Conv",
    residual: Optional[Sequence[int]] = None,
    operand: Optional[Sequence[int]] = None,
    **arguments: Any,
) -> Case:
    """A convolution; its operands are given in the order X, addend, W, bias, operand of the activation."""
    shapes: List[Sequence[int]] = [x, w, (w[0],)][: 3 if bias else 2]
    names = ["x0", "x1", "x2" if bias else ""]
    if residual is not None or operand is not None:
        shapes += [one for one in (residual, operand) if one is not None]
        names += ["x3" if residual is not None else ""]
        names += ["x4" if residual is not None else "x3"] if operand is not None else []
    domain = "armnet" if type.startswith("Fused") else ""
    made = OperatorDef.of(type, names, ["y"], domain=domain, **arguments)
    terms = int(np.prod(w[1:]))
    amplification = 12.0 if "winograd" in engine else 1.0
    return Case(made.replace(engine=engine), shapes, -1, terms, amplification)


CASES: Dict[str, Case] = {
    "3x3": conv((2, 5, 9, 11), (7, 5, 3, 3), kernel=3, pad=1),
    "relu": conv((1, 4, 8, 9), (8, 4, 3, 3), type="ConvRelu", kernel=3),
    "1x1": conv((2, 12, 5, 7), (6, 12, 1, 1), kernel=1),
    "1x1 strided": conv((1, 8, 7, 9), (4, 8, 1, 1), kernel=1, stride=2),
    "strided and dilated": conv((1, 3, 13, 12), (8, 3, 3, 2), kernels=[3, 2], strides=[2, 1], dilations=[2, 3]),
    "uneven pads": conv((1, 3, 7, 6), (4, 3, 3, 3), kernel=3, pad_t=2, pad_l=0, pad_b=1, pad_r=2, bias=False),
    "groups of blocks": conv((1, 16, 6, 7), (8, 8, 3, 3), kernel=3, pad=1, group=2),
    "groups of few": conv((1, 6, 6, 7), (9, 2, 3, 3), kernel=3, pad=1, group=3),
    "multiplier": conv((1, 6, 6, 7), (12, 1, 3, 3), kernel=3, pad=1, group=6),
    "depthwise": conv((2, 6, 9, 10), (6, 1, 3, 3), kernel=3, pad=1, group=6),
    "depthwise strided": conv((1, 8, 9, 10), (8, 1, 5, 5), kernel=5, pad=2, stride=2, group=8, bias=False),
    "residual": conv(
        (1, 4, 6, 7), (6, 4, 3, 3), type="FusedConv", residual=(1, 6, 6, 7), kernel=3, pad=1, activation="Relu"
    ),
    "depthwise residual": conv(
        (1, 4, 6, 7),
        (4, 1, 3, 3),
        type="FusedConv",
        residual=(1, 4, 6, 7),
        kernel=3,
        pad=1,
        group=4,
        activation="Clip",
        min=0.0,
        max=6.0,
    ),
    "prelu": conv((1, 4, 6, 7), (6, 4, 1, 1), type="FusedConv", operand=(6,), kernel=1, activation="PRelu"),
    "floor": conv((1, 4, 6, 7), (6, 4, 3, 3), type="FusedConv", operand=(6, 1, 1), kernel=3, activation="onnx.Max"),
    "hard swish": conv((1, 4, 6, 7), (6, 4, 3, 3), type="FusedConv", kernel=3, activation="onnx.HardSwish"),
    "gelu": conv((1, 4, 6, 7), (6, 4, 3, 3), type="FusedConv", kernel=3, activation="onnx.Gelu"),
    "gelu by tanh": conv(
        (1, 4, 6, 7), (6, 4, 1, 1), type="FusedConv", kernel=1, activation="onnx.Gelu", approximate="tanh"
    ),
    "winograd": conv((2, 5, 10, 9), (6, 5, 3, 3), kernel=3, pad=1, engine="DEVICE:winograd"),
    "winograd residual": conv(
        (1, 4, 7, 8),
        (6, 4, 3, 3),
        type="FusedConv",
        residual=(1, 6, 5, 6),
        kernel=3,
        activation="Relu",
        engine="DEVICE:winograd",
    ),
    "im2col": conv((2, 6, 9, 8), (10, 3, 3, 3), kernel=3, pad=1, stride=2, group=2, engine="DEVICE:im2col"),
    "im2col residual": conv(
        (1, 4, 9, 7),
        (5, 4, 3, 3),
        type="FusedConv",
        residual=(1, 5, 7, 5),
        kernel=3,
        activation="Relu",
        engine="DEVICE:im2col",
    ),
    "max pool": Case(op("MaxPool", kernel=3, stride=2, pad=1), [(2, 5, 9, 8)]),
    "average pool": Case(op("AveragePool", kernel=3, stride=2, pad=1), [(2, 5, 9, 8)], terms=9),
    "average pool with padding": Case(op("AveragePool", kernel=3, pad=1, count_include_pad=1), [(1, 4, 5, 6)], terms=9),
    "global average": Case(op("AveragePool", global_pooling=1), [(2, 7, 9, 8)], terms=72),
    "global maximum": Case(op("MaxPool", global_pooling=1), [(2, 7, 9, 8)]),
    "small global average": Case(op("AveragePool", global_pooling=1), [(1, 7, 3, 3)], terms=9),
    "sigmoid": Case(op("Sigmoid"), [(2, 5, 3, 4)]),
    "tanh": Case(op("Tanh"), [(6, 7)]),
    "exp of channels that fill up": Case(op("Exp"), [(1, 5, 3, 3)]),
    "leaky": Case(op("LeakyRelu", alpha=0.2), [(1, 5, 3, 3)]),
    "clip": Case(op("Clip", min=-0.5, max=0.25), [(3, 5)]),
    "add": Case(op("Add", 2), [(2, 5, 3, 4), (2, 5, 3, 4)]),
    "product with channels": Case(op("Mul", 2), [(2, 5, 3, 4), (2, 5, 1, 1)]),
    "constant a channel": Case(op("Sub", 2), [(2, 5, 3, 4), (5, 1, 1)], constants=1),
    "broadcast=1": Case(op("Add", 2, broadcast=1, axis=1), [(2, 5, 3, 4), (5,)], constants=1),
    "both broadcast": Case(op("Add", 2, domain="onnx"), [(2, 1, 4), (3, 1)]),
    "sum of three": Case(op("Sum", 3), [(2, 5, 3, 4)] * 3, terms=3),
    "batch norm": Case(op("SpatialBN", 5, is_test=1), [(2, 5, 3, 4), (5,), (5,), (5,), (5,)], constants=4),
    "softmax": Case(op("Softmax"), [(3, 5)], terms=5),
    "wide softmax": Case(op("Softmax"), [(2, 300)], terms=300),
    "softmax of an axis": Case(op("Softmax", domain="onnx", axis=1), [(2, 100, 3)], terms=100),
    "log softmax": Case(op("LogSoftmax", domain="onnx"), [(4, 10)], terms=10),
    "fully connected": Case(op("FC", 3), [(3, 4, 5), (7, 20), (7,)], constants=2, terms=20),
    "transposed": Case(op("FCTransposed", 3), [(2, 70), (70, 5), (5,)], constants=2, terms=70),
    "transpose": Case(op("Transpose", axes=[0, 2, 3, 1]), [(2, 5, 3, 4)]),
    "shuffle": Case(op("ChannelShuffle", group=3), [(2, 6, 3, 4)]),
    "nearest": Case(op("ResizeNearest", width_scale=2.0, height_scale=1.5), [(2, 5, 4, 3)]),
    "bilinear": Case(op("UpsampleBilinear", width_scale=2.0, height_scale=2.0), [(1, 5, 4, 3)], terms=4),
}
IN_HALVES = ("3x3", "depthwise", "groups of few", "winograd", "im2col", "max pool", "global average", "sigmoid", "add")
IN_HALVES += (
    "softmax",
    "wide softmax",
    "fully connected",
    "transpose",
    "bilinear",
    "batch norm",
    "product with channels",
)


def operands(case: Case, half: bool) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Random feeds and constants by name; with halves, feeds that are halves."""
    random = np.random.default_rng(0)
    weights = case.constants == -1
    feeds, constants = {}, {}
    first_constant = len(case.shapes) - case.constants
    addend = lookup(case.op).fusion.addend if lookup(case.op).fusion else None  # type: ignore[union-attr]
    for at, (name, shape) in enumerate(zip([name for name in case.op.input if name], case.shapes)):
        is_addend = weights and addend is not None and case.op.input[addend : addend + 1] == (name,)
        constant = at >= first_constant if not weights else at > 0 and not is_addend
        x = random.standard_normal(shape).astype(np.float32)
        if case.op.type == "SpatialBN" and at == 4:
            x = np.abs(x) + 1
        if half and not constant:
            x = x.astype(np.float16).astype(np.float32)
        (constants if constant else feeds)[name] = x
    return feeds, constants


def check(opened: Tuple[Device, Programs], case: Case, half: bool) -> None:
    feeds, constants = operands(case, half)
    (y,) = on_device(opened, [case.op], feeds, constants, half).values()
    inputs = [{**feeds, **constants}[name] if name else None for name in case.op.input]
    expected = lookup(case.op).evaluate(case.op, inputs)[0]
    magnitude = np.abs(expected).max()
    if lookup(case.op).kind is Kind.CONVOLUTION:
        parts = [None if x is None else np.abs(x) for x in inputs]
        plain = case.op.replace(type="Conv", domain="", engine="", input=case.op.input[:3])
        magnitude = np.abs(lookup(plain).evaluate(plain, parts[:3])[0]).max() + 1
    amplification = case.amplification * (HALVES if half else 1.0)
    assert_close(y, expected, terms=case.terms, magnitude=magnitude, amplification=amplification, what=str(case.op))


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_what_the_reference_does(opened: Tuple[Device, Programs], name: str) -> None:
    check(opened, CASES[name], half=False)


@pytest.mark.parametrize("name", IN_HALVES)
def test_a_kernel_computes_with_stored_halves(opened: Tuple[Device, Programs], name: str) -> None:
    check(opened, CASES[name], half=True)


@pytest.mark.parametrize("name", ["winograd", "winograd residual", "im2col", "im2col residual"])
def test_the_way_that_is_asked_for_is_used(name: str) -> None:
    case = CASES[name]
    specs = [TensorSpec(shape, np.float32) for shape in case.shapes]
    assert algorithm_of(case.op, [specs[0], specs[1]]) == name.split()[0]
    assert algorithm_of(case.op.replace(engine=f"DEVICE:{DIRECT}"), [specs[0], specs[1]]) == DIRECT


def test_a_chain_changes_layouts_on_the_way(opened: Tuple[Device, Programs]) -> None:
    """Blocks to plain and back, a shape that is only seen differently, and channels joined in both layouts."""
    random = np.random.default_rng(1)
    feeds = {"x": random.standard_normal((2, 8, 4, 6)).astype(np.float32)}
    ops = [
        OperatorDef.of("MaxPool", ["x"], ["a"], kernel=2, stride=2),
        OperatorDef.of("Sigmoid", ["a"], ["b"]),
        OperatorDef.of("Concat", ["a", "b"], ["c", "lengths"], axis=1),
        OperatorDef.of("Reshape", ["c"], ["d", "old"], shape=[2, 4, 4, 6]),
        OperatorDef.of("Concat", ["d", "d"], ["e", "more"], axis=2),
        OperatorDef.of("Add", ["e", "e"], ["f"]),
    ]
    (y,) = on_device(opened, ops, feeds, {}).values()
    blobs: Dict[str, Any] = dict(feeds)
    for one in ops:
        for name, value in zip(one.output, lookup(one).evaluate(one, [blobs[name] for name in one.input])):
            blobs[name] = value
    assert_close(y, blobs["f"], what="chain")


@pytest.mark.parametrize(
    ("refused", "specs", "reason"),
    [
        (op("Gather", 2), [(4, 4), (2,)], "no kernel"),
        (op("Conv", 2, kernels=[2, 2, 2]), [(1, 2, 3, 3, 3), (2, 2, 2, 2, 2)], "convolves images"),
        (op("Conv", 2, kernel=1), [(1, 2, 3, 3), (2, 2, 1, 1)], "must be constant"),
        (op("MaxPool", kernel=2, order="NHWC"), [(1, 4, 4, 2)], "pools images"),
        (op("Cos"), [(3,)], "no kernel"),
    ],
)
def test_a_refusal_says_why(refused: OperatorDef, specs: Sequence[Sequence[int]], reason: str) -> None:
    inputs = [TensorSpec(shape, np.float32) for shape in specs]
    outputs = [inputs[0]] if refused.type == "Gather" else lookup(refused).infer(refused, inputs)
    assert reason in (refusal(refused, inputs, outputs) or "")


def test_integers_stay_on_the_processor() -> None:
    spec = TensorSpec((2, 3), np.int32)
    one = op("Add", 2)
    assert refusal(one, [spec, spec], [spec]) == "the device computes float32, not int32"


def test_nan_is_not_hidden_by_an_activation(opened: Tuple[Device, Programs]) -> None:
    x = np.array([[np.nan, -1, np.inf, -np.inf]], np.float32)
    (y,) = on_device(opened, [op("Relu")], {"x0": x}, {}).values()
    np.testing.assert_array_equal(y, [[np.nan, 0, np.inf, 0]])
