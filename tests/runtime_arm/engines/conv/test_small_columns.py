"""IM2COL of small images: every window, what follows a convolution, and when it serves."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv.small_columns import SmallColumns
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.specs import TensorSpec

few = st.integers(1, 3)
window = st.fixed_dictionaries(
    {"kernel_h": few, "kernel_w": few, "stride_h": few, "stride_w": few, "dilation_h": few, "dilation_w": few}
)
pads = st.fixed_dictionaries({name: st.integers(0, 3) for name in ("pad_t", "pad_l", "pad_b", "pad_r")})


def _specs(op: OperatorDef, inputs: Sequence[Optional[np.ndarray[Any, Any]]]) -> List[Optional[TensorSpec]]:
    return [
        None if x is None else TensorSpec(x.shape, x.dtype, x if index in (1, 2, 4) else None)
        for index, x in enumerate(inputs)
    ]


@given(window, pads, st.tuples(few, few, st.integers(7, 11), st.integers(7, 12)), st.integers(1, 5), st.booleans())
def test_every_window_is_convolved(
    window: Dict[str, int], pads: Dict[str, int], shape: Sequence[int], filters: int, double: bool
) -> None:
    draw, dtype = np.random.default_rng(0), np.float64 if double else np.float32
    op = OperatorDef.of("ConvRelu", ["X", "W", "b"], ["Y"], **window, **pads)
    shapes = [tuple(shape), (filters, shape[1], window["kernel_h"], window["kernel_w"]), (filters,)]
    inputs = [draw.standard_normal(shape).astype(dtype) for shape in shapes]
    assert SmallColumns.of(op, _specs(op, inputs)) is not None
    (expected,), (actual,) = run_kernel(op, inputs), run_kernel(op, inputs, "IM2COL", constants=(1, 2))
    assert_close(actual, expected, terms=9 * shape[1] + 2)


@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize("more", [2, 3, 4])
@pytest.mark.parametrize("shape", [(1, 3, 9, 12), (2, 8, 12, 9)])
def test_padding_that_leaves_pixels_out_crops(kernel: int, more: int, shape: Sequence[int]) -> None:
    draw = np.random.default_rng(0)
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=kernel, stride=kernel + more, legacy_pad=2)
    inputs = [draw.standard_normal(size).astype(np.float32) for size in (shape, (4, shape[1], kernel, kernel))]
    chosen = SmallColumns.of(op, _specs(op, inputs))
    assert chosen is not None
    assert min(chosen.window.head) < 0
    (expected,), (actual,) = run_kernel(op, inputs), run_kernel(op, inputs, "IM2COL", constants=(1,))
    assert_close(actual, expected, terms=kernel * kernel * shape[1])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"activation": "Relu"},
        {"activation": "Clip", "activation_min": -0.5, "activation_max": 0.75},
        {"activation": "onnx.HardSwish"},
        {"activation": "PRelu"},
        {"activation": "onnx.Max"},
    ],
    ids=lambda given: given.get("activation", "none"),
)
@pytest.mark.parametrize("addend", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_what_follows_a_convolution_follows(arguments: Dict[str, Any], addend: bool, bias: bool) -> None:
    draw = np.random.default_rng(1)
    operand = {"PRelu": (6,), "onnx.Max": (6, 1, 1)}.get(str(arguments.get("activation")))
    shapes = [(2, 5, 7, 8), (6, 5, 3, 3), (6,) if bias else None, (2, 6, 7, 8) if addend else None, operand]
    inputs = [None if shape is None else draw.standard_normal(shape).astype(np.float32) for shape in shapes]
    while inputs[-1] is None:
        inputs.pop()
    names = ["" if x is None else f"i{at}" for at, x in enumerate(inputs)]
    op = OperatorDef.of("FusedConv", names, ["Y"], domain="armnet", kernel=3, pad=1, **arguments)
    constants = tuple(at for at in (1, 2, 4) if at < len(inputs) and inputs[at] is not None)
    (expected,), (actual,) = run_kernel(op, inputs), run_kernel(op, inputs, "IM2COL", constants=constants)
    assert_close(actual, expected, terms=9 * 5 + 3)


@pytest.mark.parametrize(
    ("shape", "filters", "arguments", "serves"),
    [
        ((1, 48, 4, 4), 48, {"pad": 1}, True),
        ((1, 48, 4, 4), 48, {"pad": 1, "order": "NHWC"}, False),
        ((1, 48, 4, 4), 48, {"pad": 1, "group": 2}, False),
        ((1, 64, 56, 56), 64, {"pad": 1}, False),
    ],
)
def test_it_serves_where_the_columns_are_small(
    shape: Sequence[int], filters: int, arguments: Dict[str, Any], serves: bool
) -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, **arguments)
    last = arguments.get("order") == "NHWC"
    kernel = (filters, 3, 3, shape[3]) if last else (filters, shape[1] // arguments.get("group", 1), 3, 3)
    inputs = [np.zeros(shape, np.float32), np.zeros(kernel, np.float32)]
    assert (SmallColumns.of(op, _specs(op, inputs)) is not None) == serves
    given_weights = [spec and TensorSpec(spec.shape, spec.dtype) for spec in _specs(op, inputs)]
    assert SmallColumns.of(op, given_weights) is None, "filters that are not constant are not packed"


def test_images_of_other_sizes_get_a_bias_of_theirs() -> None:
    draw = np.random.default_rng(0)
    weights = {"w": draw.standard_normal((6, 256, 3, 3)).astype(np.float32), "b": np.arange(6, dtype=np.float32)}
    op = OperatorDef.of("Conv", ["x", "w", "b"], ["y"], kernel=3, pad=1)
    executor = Executor(NetDef("sizes", (op,), ("x", *weights), ("y",)), weights)
    for size in ((4, 5), (5, 5), (4, 5)):
        x = draw.standard_normal((1, 256, *size)).astype(np.float32)
        expected = run_kernel(op, [x, *weights.values()])[0]
        assert_close(executor.run({"x": x}, ["y"])["y"], expected, terms=9 * 256)


@pytest.mark.parametrize(("channels", "filters", "size"), [(8, 12, 9), (24, 48, 8), (20, 50, 15)])
@pytest.mark.parametrize("pool", [{"kernel": 2, "stride": 2}, {"kernel_h": 2, "kernel_w": 3, "stride": 3}])
@pytest.mark.parametrize("follows", ["Conv", "ConvRelu"])
def test_a_pool_behind_it_runs_before_bias_and_activation(
    channels: int, filters: int, size: int, pool: Dict[str, int], follows: str
) -> None:
    draw = np.random.default_rng(3)
    weights = {
        "w": draw.standard_normal((filters, channels, 3, 3)).astype(np.float32),
        "b": draw.standard_normal(filters).astype(np.float32),
    }
    convolution = OperatorDef.of(follows, ["x", "w", "b"], ["c"], kernel=3, pad=1)
    ops = (convolution, OperatorDef.of("MaxPool", ["c"], ["y"], **pool))
    executor = Executor(NetDef("pooled", ops, ("x", *weights), ("y",)), weights)
    for batch in (1, 2, 1):
        x = draw.standard_normal((batch, channels, size, size)).astype(np.float32)
        actual = executor.run({"x": x}, ["y"])["y"]
        convolved = run_kernel(convolution, [x, *weights.values()])[0]
        assert_close(actual, run_kernel(ops[1], [convolved])[0], terms=9 * channels + 2)
    first = executor.plans()[-1].running[0]
    tiny = 9 * size**2 * channels * filters <= 1 << 20
    assert not tiny or (first.op.type, first.engine) == ("PooledConv", "IM2COL")


def test_zeros_around_a_small_image_stay() -> None:
    draw = np.random.default_rng(4)
    weights = {"w": draw.standard_normal((6, 5, 3, 3)).astype(np.float32)}
    op = OperatorDef.of("Conv", ["x", "w"], ["y"], kernel=3, pad=1)
    executor = Executor(NetDef("padded", (op,), ("x", "w"), ("y",)), weights)
    x = draw.standard_normal((1, 5, 6, 7)).astype(np.float32)
    before = executor.run({"x": x}, ["y"])["y"]
    executor.run({"x": np.full_like(x, np.nan)}, ["y"])
    np.testing.assert_array_equal(executor.run({"x": x}, ["y"])["y"], before)
