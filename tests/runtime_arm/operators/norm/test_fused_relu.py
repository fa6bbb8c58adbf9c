"""SpatialBNRelu and SpatialBNAddRelu, both ways: kernels, masks, recorded runs of OneFlow, refusals."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import assert_engines_match_reference, run_kernel
from device_tests.suite.tolerance import assert_close
from optimize.gradients import add_gradient_operators
from runtime_arm.errors import ArmnetError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.common.bits import BLOCK, packed, unpacked

FROM_OUTPUT = 100.0  # (Y - bias) / scale gives X back: a small scale magnifies the rounding of Y
SHAPES = [(5, 3), (2, 3, 7), (3, 4, 5, 5), (2, 3, 4, 3, 2), (1, 2, 96, 96), (33, 31)]
FORWARD = ["y", "m", "v", "sm", "si", "mask"]


def forward(adds: bool, outputs: int = 6, **arguments: Any) -> OperatorDef:
    inputs = ["x", "s", "b", "m", "v"] + ["r"] * adds
    return OperatorDef.of("SpatialBNAddRelu" if adds else "SpatialBNRelu", inputs, FORWARD[:outputs], **arguments)


def backward(adds: bool, **arguments: Any) -> OperatorDef:
    type = "SpatialBNAddReluGradient" if adds else "SpatialBNReluGradient"
    outputs = ["dx", "ds", "db"] + ["dr"] * adds
    return OperatorDef.of(type, ["x", "s", "dy", "sm", "si", "mask"], outputs, **arguments)


def operands(shape: Any, adds: bool, dtype: Any = np.float32, order: str = "NCHW") -> List[Any]:
    random = np.random.default_rng(7)
    channels = shape[1] if order == "NCHW" else shape[-1]
    x = random.standard_normal(shape) * 3 + 1
    parameters = [random.standard_normal(channels) for _ in range(3)] + [random.random(channels) + 0.5]
    extra = [random.standard_normal(shape)] if adds else []
    return [array.astype(dtype) for array in (x, *parameters, *extra)]


@pytest.mark.parametrize("is_test", [0, 1])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_fast_kernels_compute_what_the_references_do(shape: Any, adds: bool, is_test: int) -> None:
    op = forward(adds, is_test=is_test, epsilon=1e-3, momentum=0.7)
    inputs = operands(shape, adds)
    terms = inputs[0].size
    assert assert_engines_match_reference(op, inputs, terms=terms) == ["NUMPY"]
    _, _, _, mean, inverse, mask = run_kernel(op, inputs)
    dy = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    given = [inputs[0], inputs[1], dy, mean, inverse, mask]
    assert assert_engines_match_reference(backward(adds, is_test=is_test), given, terms=terms) == ["NUMPY"]


@pytest.mark.parametrize("adds", [False, True])
def test_channels_last_is_channels_first_transposed(adds: bool) -> None:
    inputs = operands((2, 5, 4, 3), adds, order="NHWC")
    moved = [np.moveaxis(x, -1, 1) if x.ndim == 4 else x for x in inputs]
    last = run_kernel(forward(adds, order="NHWC"), inputs)
    first = run_kernel(forward(adds), moved)
    assert_close(last[0], np.moveaxis(first[0], 1, -1), terms=64)
    assert np.array_equal(unpacked(last[5], last[0].shape), last[0] > 0)


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("is_test", [0, 1])
def test_the_gradient_is_that_of_finite_differences(adds: bool, is_test: int) -> None:
    inputs = operands((3, 2, 4), adds, np.float64)
    op = forward(adds, is_test=is_test)
    _, _, _, mean, inverse, mask = run_kernel(op, inputs)
    dy = np.random.default_rng(2).standard_normal((3, 2, 4))
    found = run_kernel(backward(adds, is_test=is_test), [inputs[0], inputs[1], dy, mean, inverse, mask])
    for at, gradient in zip((0, 1, 2, 5), found):
        expected = np.zeros_like(inputs[at])
        for index in np.ndindex(*expected.shape):
            step = [array.copy() for array in inputs]
            step[at][index] += 1e-6
            up = run_kernel(op, step)[0]
            step[at][index] -= 2e-6
            expected[index] = ((up - run_kernel(op, step)[0]) * dy).sum() / 2e-6
        np.testing.assert_allclose(gradient, expected, atol=1e-6)  # differences


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("type", ["SpatialBN", "SpatialBNRelu", "SpatialBNAddRelu"])
def test_a_normalisation_is_computed_again_with_the_same_bits(shape: Any, type: str) -> None:
    inputs = operands(shape, type == "SpatialBNAddRelu")
    outputs = FORWARD[:5]
    names = ["x", "s", "b", "m", "v", "a"][: len(inputs)]
    op, engine = OperatorDef.of(type, names, outputs, is_test=0), "TRAINING" if type == "SpatialBN" else "NUMPY"
    y, _, _, mean, inverse = run_kernel(op, inputs, engine)
    again = OperatorDef.of("SpatialBNAgain", names, ["y"], domain="armnet", relu=int(type != "SpatialBN"))
    given = [*inputs[:3], mean, inverse, *inputs[5:]]
    assert assert_engines_match_reference(again, given, terms=8) == ["NUMPY"]
    np.testing.assert_array_equal(run_kernel(again, given, "NUMPY")[0], y)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_normalisation_that_overwrote_its_input_learns_from_its_output(shape: Any) -> None:
    x, scale, bias, mean, variance = operands(shape, False)
    scale[0] = 0
    outputs = ["y", "m", "v", "sm", "si"]
    op = OperatorDef.of("SpatialBN", ["x", "s", "b", "m", "v"], outputs, is_test=0)
    y, _, _, used, inverse = run_kernel(op, [x, scale, bias, mean, variance])
    dy = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    back = OperatorDef.of(
        "SpatialBNOutputGradient", ["y", "s", "dy", "b", "si"], ["dx", "ds", "db"], domain="armnet", is_test=0
    )
    assert assert_engines_match_reference(back, [y, scale, dy, bias, inverse], terms=4 * x.size) == ["NUMPY"]
    found = run_kernel(back, [y, scale, dy, bias, inverse])
    everywhere = np.full(-(-x.size // 32), -1, np.int32)
    expected = run_kernel(backward(False, is_test=0), [x, scale, dy, used, inverse, everywhere])
    for name, actual, wanted in zip(("dx", "dscale", "dbias"), found, expected):
        wanted = np.where(scale == 0, 0, wanted) if name == "dscale" else wanted
        assert_close(actual, wanted, terms=4 * x.size, amplification=FROM_OUTPUT, what=name)


def test_the_gradient_of_a_normalisation_in_place() -> None:
    found = []
    for name in ("y", "x"):
        bn = OperatorDef.of("SpatialBN", ["x", "s", "b", "m", "v"], [name, "m", "v", "sm", "si"], is_test=0)
        net, gradients = add_gradient_operators(NetDef("n", (bn,)), {name: "dy"})
        workspace = Workspace()
        for blob, value in zip("xsbmv", operands((3, 4, 5, 5), False)):
            workspace.feed(blob, value)
        workspace.feed("dy", np.random.default_rng(1).standard_normal((3, 4, 5, 5)).astype(np.float32))
        workspace.run_net_once(net)
        found.append([workspace.fetch(str(gradients[blob])) for blob in ("s", "b")])
    for apart, in_place in zip(*found):
        assert_close(in_place, apart, terms=3 * 5 * 5, amplification=FROM_OUTPUT)


@pytest.mark.parametrize("size", [1, 7, 8, 31, 32, 33, BLOCK - 1, BLOCK, BLOCK + 33])
def test_a_mask_has_one_bit_an_element(size: int) -> None:
    flags = np.random.default_rng(size).random(size) > 0.5
    mask = packed(flags)
    assert mask.dtype == np.int32
    assert mask.shape == (-(-size // 32),)
    assert np.array_equal(unpacked(mask, (size,)), flags)
    assert all((int(mask[i // 32]) >> (i % 32)) & 1 == flags[i] for i in range(0, size, max(size // 50, 1)))
    x = np.where(flags, 1.0, -1.0).astype(np.float32).reshape(1, size)
    one = np.ones(size, np.float32)
    op = forward(False, is_test=1, epsilon=0.0)
    assert np.array_equal(run_kernel(op, [x, one, 0 * one, 0 * one, one], "NUMPY")[5], mask)


def test_what_lies_at_zero_has_no_gradient() -> None:
    x, one = np.zeros((4, 2), np.float32), np.ones(2, np.float32)
    outputs = run_kernel(forward(False), [x, one, 0 * one, 0 * one, one])
    assert not outputs[5].any()


def test_evaluation_needs_no_output_but_y_and_keeps_the_statistics() -> None:
    inputs = operands((2, 3, 4), False)
    (y,) = run_kernel(forward(False, 1, is_test=1), inputs)
    outputs = run_kernel(forward(False, is_test=1), inputs)
    assert np.array_equal(y, outputs[0])
    assert np.array_equal(outputs[1], inputs[3])
    assert np.array_equal(outputs[3], inputs[3])


def test_statistics_and_y_may_overwrite_their_inputs() -> None:
    inputs = operands((2, 3, 4, 4), True)
    expected = run_kernel(forward(True), inputs)
    workspace = Workspace()
    for name, value in zip("xsbmvr", inputs):
        workspace.feed(name, value)
    op = forward(True).replace(output=("r", "m", "v", "sm", "si", "mask"))
    workspace.run_net_once(NetDef("n", (op,)))
    for name, value in zip(op.output, expected):
        assert_close(workspace.fetch(name), value, terms=64, what=name)


@pytest.mark.parametrize(
    ("op", "shapes", "reason"),
    [
        (forward(False, 1), [(2, 3), (3,), (3,), (3,), (3,)], "5 outputs, or 6"),
        (forward(False), [(2,), (3,), (3,), (3,), (3,)], "2 to 5 dimensions"),
        (forward(False), [(2, 3), (3,), (2,), (3,), (3,)], "one per channel"),
        (forward(True), [(2, 3), (3,), (3,), (3,), (3,), (3, 2)], "addend must have the shape"),
        (backward(False), [(2, 3), (3,), (2, 3), (3,), (3,), (2,)], "one bit for each element"),
    ],
)
def test_wrong_operands_are_refused(op: OperatorDef, shapes: List[Any], reason: str) -> None:
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    with pytest.raises(ArmnetError, match=reason):
        run_kernel(op, arrays)
