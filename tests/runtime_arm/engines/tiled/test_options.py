"""Every option of every operator on blobs in tiles, against the reference, with one worker and with several."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled import columns, depthwise, epilogue, pool, stem, strips, winograd
from runtime_arm.engines.tiled.options import KnownOptions, Option, conversion
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.layouts import Planes, Tiles
from runtime_arm.registry.schema import lookup, registered
from runtime_arm.registry.shape_inference import infer_operator
from runtime_arm.registry.specs import TensorSpec
from tests.support.tiles import tiles_everywhere

Problem = Tuple[OperatorDef, List[Any], Tuple[int, ...]]


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def assert_options_agree(problem: Problem, workers: int = 1, least: int = 1) -> List[Option]:
    op, inputs, constants = problem
    options = tiled_options(op, inputs, constants)
    assert len(options) >= least, f"{op.signature()} has {len(options)} options"
    expected = run_kernel(op, inputs)[0]
    x, w = inputs[0], inputs[1] if len(inputs) > 1 else None
    terms, magnitude = 64, 8 * float(np.abs(x).max())
    if constants and w.ndim == 4:
        terms = w[0].size + 1
        magnitude = terms * float(np.sqrt((w**2).mean() * (x**2).mean())) + 3
    for option in options:
        actual = run_option(op, inputs, option, constants, workers)
        assert_close(
            actual,
            expected,
            terms=terms,
            magnitude=magnitude,
            amplification=option.work.error,
            what=f"{op.signature()} by {described(option)}",
        )
        if option.outputs[0] is not None and workers == 1:
            np.testing.assert_array_equal(run_option(op, inputs, option, constants, ragged=True), actual)
        if option.kernel.reads_slices or option.kernel.writes_slices:
            sliced = run_option(op, inputs, option, constants, workers, slices=True)
            assert_close(
                sliced,
                expected,
                terms=terms,
                magnitude=magnitude,
                amplification=option.work.error,
                what=f"{op.signature()} by {described(option)} between slices",
            )
    return options


@st.composite
def convolutions(draw: Any) -> Problem:
    kernel = draw(st.sampled_from([1, 1, 2, 3, 3, 5]))
    stride = draw(st.integers(1, 2))
    dilation = draw(st.sampled_from([1, 1, 1, 2, 3]))
    pads = draw(st.sampled_from([[0] * 4, [1] * 4, [0, 0, 1, 1], [kernel // 2] * 4, [dilation] * 4]))
    sizes = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 13])
    image = [max(draw(sizes), (kernel - 1) * dilation + 1) for _ in range(2)]
    depthwise = draw(st.booleans())
    channels = draw(st.sampled_from([2, 3, 16])) if depthwise else draw(st.sampled_from([1, 3, 9, 64]))
    filters = channels if depthwise else draw(st.sampled_from([1, 5, 64]))
    x = normal(draw(st.integers(1, 2)), channels, *image)
    w = normal(filters, 1 if depthwise else channels, kernel, kernel)
    inputs = [x, w, *([normal(filters)] if draw(st.booleans()) else [])]
    type = draw(st.sampled_from(["Conv", "ConvRelu"]))
    op = OperatorDef.of(
        type,
        ["X", "W", "b"][: len(inputs)],
        ["Y"],
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        pads=pads,
        group=channels if depthwise else 1,
    )
    return op, inputs, (1, 2)


@given(convolutions(), st.sampled_from([1, 2, 3]))
@settings(max_examples=150)
def test_convolutions(problem: Problem, workers: int) -> None:
    assert_options_agree(problem, workers, least=0)


@pytest.mark.parametrize("image", [(9, 9), (9, 13), (11, 30)])
def test_dilated_kernels_at_positions_outside_the_image(image: Tuple[int, int]) -> None:
    inputs = [normal(1, 9, *image), normal(5, 9, 5, 5)]
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=5, stride=2, dilation=2, pad=2)
    assert_options_agree((op, inputs, (1,)))


@pytest.mark.parametrize("image", [(24, 31), (9, 67)])
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "stride", "group"),
    [
        (5, 7, 3, 1, 1),
        (9, 64, 3, 2, 1),
        (3, 8, 7, 2, 1),
        (16, 16, 1, 1, 1),
        (8, 8, 3, 1, 8),
        (8, 8, 3, 2, 8),
        (12, 4, 5, 1, 1),
    ],
)
def test_strips_join_seamlessly(
    channels: int, filters: int, kernel: int, stride: int, group: int, image: Tuple[int, int], monkeypatch: Any
) -> None:
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 20_000)
    monkeypatch.setattr(winograd, "LEAST_TILES", 1)
    monkeypatch.setattr(columns, "LEAST_PACKED", 1)
    monkeypatch.setattr(epilogue, "longest_row", lambda: 200)
    monkeypatch.setattr(depthwise, "BLOCK", 200)
    monkeypatch.setattr(depthwise, "usual_block_nbytes", lambda: 1600)
    monkeypatch.setattr(depthwise, "RUN", 40)
    monkeypatch.setattr(depthwise, "SHORT_RUN", 40)
    monkeypatch.setattr(depthwise, "LEAST_RUN", 8)
    inputs = [normal(2, channels, *image), normal(filters, channels // group, kernel, kernel), normal(filters)]
    op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2, group=group)
    for workers in (1, 2):
        assert_options_agree((op, inputs, (1, 2)), workers)


@given(st.integers(1, 40), st.integers(0, 2), st.integers(1, 30), st.integers(1, 50), st.integers(1, 9))
def test_runs_of_a_depthwise_convolution_meet_every_pixel_once(
    width: int, border: int, rows: int, most: int, least: int
) -> None:
    pitch = width + border
    met = np.zeros(rows * pitch, int)
    runs = depthwise._runs(strips.Strip(0, rows, 0, pitch, pitch), width, most, least)
    for run in runs:
        starts = run.begin + run.apart * np.arange(run.rows)[:, None] + run.pixels * np.arange(run.side_by_side)
        np.add.at(met, (starts[..., None] + np.arange(run.pixels)).reshape(-1), 1)
    assert (met.reshape(rows, pitch)[:, :width] == 1).all()
    assert met.max() == 1
    assert max(run.pixels for run in runs) <= most * 5 // 4
    if width <= most and width >= least:
        assert met.sum() == rows * width


@pytest.mark.parametrize(("kernel", "stride", "image"), [(3, 1, (6, 20)), (5, 1, (7, 7)), (3, 2, (12, 16))])
def test_depthwise_convolutions_of_many_channels(kernel: int, stride: int, image: Tuple[int, int]) -> None:
    inputs = [normal(2, 160, *image), normal(160, 1, kernel, kernel), normal(160)]
    op = OperatorDef.of("ConvRelu", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2, group=160)
    for workers in (1, 2):
        assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.parametrize("image", [(24, 31), (9, 67), (5, 5)])
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(3, 2, 1), (1, 2, 1), (5, 3, 1), (3, 2, 2), (2, 4, 1)])
def test_strided_convolutions_can_read_tiles_of_one_pixel(
    kernel: int, stride: int, dilation: int, image: Tuple[int, int], monkeypatch: Any
) -> None:
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 20_000)
    monkeypatch.setattr(columns, "LEAST_PACKED", 1)
    inputs = [normal(1, 9, *image), normal(64, 9, kernel, kernel), normal(64)]
    op = OperatorDef.of(
        "Conv", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, dilation=dilation, pad=kernel // 2
    )
    for workers in (1, 2):
        options = assert_options_agree((op, inputs, (1, 2)), workers)
        assert any(option.inputs[0] is not None and option.inputs[0].tile == 1 for option in options)


def test_columns_of_deep_layers_are_bounded() -> None:
    inputs = [normal(1, 2048, 33, 33), normal(64, 2048, 3, 3)]
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, pad=1, engine="IM2COL")
    specs = specs_of(inputs, (1,))
    outputs = lookup(op).infer(op, specs)
    options = tiled_options(op, inputs, (1,))
    assert options
    for option in options:
        assert sum(spec.nbytes for spec in option.kernel.scratch(op, specs, outputs)) < 4 << 20


@pytest.mark.parametrize(("depth", "filters", "calls"), [(148, 64, 2), (364, 96, 1), (393, 512, 1)])
def test_products_of_first_convolutions_are_cut_only_where_that_pays(
    depth: int, filters: int, calls: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(stem, "multiplies_small", lambda: True)
    matrix, weights, out = normal(depth, 1083), normal(depth, filters), np.empty((1083, filters), np.float32)
    products = list(stem._products(matrix.T, weights, out))
    assert len(products) == calls
    for product in products:
        product()
    expected = (matrix.T.astype(np.float64) @ weights).astype(np.float32)
    assert_close(out, expected, terms=depth, magnitude=depth)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("hint", ["block=65536", "block=131072,panel=32", "panel=0", "panel=8", "panel=64"])
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "stride"),
    [
        (64, 64, 3, 1),
        (64, 64, 3, 2),
        (128, 192, 1, 1),
        (3, 64, 7, 2),
    ],
)
def test_hints_change_no_result(
    channels: int, filters: int, kernel: int, stride: int, hint: str, small: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    inputs = [normal(1, channels, 40, 40), normal(filters, channels, kernel, kernel), normal(filters)]
    op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2, engine=hint)
    for workers in (1, 2):
        assert_options_agree((op, inputs, (1, 2)), workers)


def tiled_kernel(channels: int, filters: int, kernel: int, engine: str = "", size: int = 56) -> Any:
    inputs = [normal(1, channels, size, size), normal(filters, channels, kernel, kernel), normal(filters)]
    op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=kernel, pad=kernel // 2, engine=engine)
    found = tiled_options(op, inputs, (1, 2))[0].kernel
    specs = specs_of(inputs, (1, 2))
    return op, found, found.scratch(op, specs, lookup(op).infer(op, specs))


def test_a_kernel_lists_the_hints_that_would_change_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 1 << 20)
    op, kernel, _ = tiled_kernel(64, 192, 1)
    assert kernel.hints(op) == ["block=524288", "block=2097152", "panel=0", "panel=32"]
    op, kernel, _ = tiled_kernel(64, 192, 1, "block=1048576,panel=32")
    assert kernel.hints(op) == ["block=524288", "block=2097152", "panel=0", "panel=64"]
    op, kernel, _ = tiled_kernel(64, 50, 1, size=7)
    assert kernel.hints(op) == []


def test_smaller_blocks_take_less_scratch() -> None:
    whole, half = (
        sum(spec.nbytes for spec in tiled_kernel(64, 64, 3, f"block={nbytes}")[2]) for nbytes in (1 << 22, 1 << 21)
    )
    assert half < 0.6 * whole


@pytest.mark.parametrize(
    "hint",
    [
        "block=0",
        "block=1",
        "block=-1",
        "block=999999999",
        "block=" + "9" * 5000,
        "block=NaN",
        "block=1e6",
        "block=",
        "block=\u0665\u0665\u0665\u0665\u0665\u0665",
        "panel=-8",
        "panel=1",
        "panel=7",
        "panel=48",
        "panel=inf",
        "panel=999999999",
        "=",
        "=5",
        "block=banana,block=65536",
    ],
)
def test_an_invalid_hint_is_ignored(hint: str) -> None:
    op, kernel, scratch = tiled_kernel(64, 64, 3)
    hinted, same, asked = tiled_kernel(64, 64, 3, hint)
    assert (same.engine, asked, same.hints(hinted)) == (kernel.engine, scratch, kernel.hints(op))


@pytest.mark.parametrize("activation", ["Relu", "Clip", "onnx.Swish", "onnx.HardSwish", "PRelu", "onnx.Max", ""])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (1, 1), (3, 2)])
def test_fused_convolutions(kernel: int, stride: int, activation: str) -> None:
    inputs = [normal(1, 20, 14, 13), normal(24, 20, kernel, kernel), normal(24)]
    bare = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2)
    inputs.append(normal(*run_kernel(bare, inputs)[0].shape))
    slope = {"PRelu": [normal(24)], "onnx.Max": [normal(24, 1, 1)]}.get(activation, [])
    arguments = {"activation": activation} if activation else {}
    op = OperatorDef.of(
        "FusedConv",
        ["X", "W", "b", "A", "s"][: 4 + len(slope)],
        ["Y"],
        domain="armnet",
        kernel=kernel,
        stride=stride,
        pad=kernel // 2,
        **arguments,
    )
    assert_options_agree((op, [*inputs, *slope], (1, 2, 4)), workers=2, least=3)


@pytest.mark.parametrize(
    ("activation", "arguments"),
    [("onnx.Swish", {}), ("Swish", {}), ("onnx.Swish", {"alpha": 1.5}), ("onnx.HardSwish", {})],
)
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "group"),
    [(20, 3, 1, 1), (20, 1, 1, 1), (20, 3, 2, 1), (3, 3, 2, 1), (24, 3, 1, 24), (24, 5, 2, 24)],
)
def test_gates_are_applied_to_products_of_scaled_weights(
    channels: int, kernel: int, stride: int, group: int, biased: bool, activation: str, arguments: Any
) -> None:
    inputs = [normal(2, channels, 14, 13), normal(24, channels // group, kernel, kernel), normal(24)][: 2 + biased]
    op = OperatorDef.of(
        "FusedConv",
        ["X", "W", "b"][: len(inputs)],
        ["Y"],
        domain="armnet",
        kernel=kernel,
        stride=stride,
        pad=kernel // 2,
        group=group,
        activation=activation,
        **arguments,
    )
    assert_options_agree((op, inputs, tuple(range(1, len(inputs)))), workers=2)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("activation", ["Relu", "Clip", "PRelu", "onnx.Max"])
@pytest.mark.parametrize(("kernel", "stride", "filters"), [(3, 1, 128), (1, 1, 192), (3, 2, 256)])
def test_workers_split_filters(
    kernel: int, stride: int, filters: int, activation: str, small: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    inputs = [normal(1, 200, 7, 7), normal(filters, 200, kernel, kernel), normal(filters)]
    bare = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2)
    inputs.append(normal(*run_kernel(bare, inputs)[0].shape))
    slope = {"PRelu": [normal(filters)], "onnx.Max": [normal(filters, 1, 1)]}.get(activation, [])
    op = OperatorDef.of(
        "FusedConv",
        ["X", "W", "b", "A", "s"][: 4 + len(slope)],
        ["Y"],
        domain="armnet",
        kernel=kernel,
        stride=stride,
        pad=kernel // 2,
        activation=activation,
    )
    for workers in (2, 3):
        assert_options_agree((op, [*inputs, *slope], (1, 2, 4)), workers, least=3)


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0)])
@pytest.mark.parametrize("image", [(8, 8), (13, 7)])
def test_pools(type: str, kernel: int, stride: int, pad: int, image: Tuple[int, int], monkeypatch: Any) -> None:
    monkeypatch.setattr(pool, "BLOCK_NBYTES", 1000)
    op = OperatorDef.of(type, ["X"], ["Y"], kernel=kernel, stride=stride, pad=pad)
    for workers in (1, 2):
        assert_options_agree((op, [normal(2, 5, *image)], ()), workers)


@pytest.mark.parametrize("activation", [{"activation": "Relu"}, {"activation": "Clip", "min": 0.5, "max": 1.0}])
def test_pools_with_limits(activation: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(pool, "BLOCK_NBYTES", 1000)
    op = OperatorDef.of("FusedMaxPool", ["X"], ["Y"], domain="armnet", kernel=3, stride=2, pad=1, **activation)
    for workers in (1, 2):
        assert_options_agree((op, [normal(2, 5, 13, 7)], ()), workers)


def test_many_small_pictures_are_not_pooled_in_tiles() -> None:
    """Each of them takes calls of NumPy, which cost more than the pixels: correlation volumes have hundreds."""
    op = OperatorDef.of("AveragePool", ["X"], ["Y"], kernel=2, stride=2)
    one, many = (tiled_options(op, [normal(images, 1, 16, 16)]) for images in (1, 256))
    assert min(option.work.time for option in many) > 10 * 256 * min(option.work.time for option in one)


def test_global_average_pools() -> None:
    op = OperatorDef.of("AveragePool", ["X"], ["Y"], global_pooling=1)
    assert_options_agree((op, [normal(3, 7, 5, 6)], ()), least=4)


def elementwise_operators() -> List[OperatorDef]:
    """Every elementwise operator that takes float32 and has a fast kernel, with the fewest inputs it allows."""
    found = []
    for schema in registered():
        if schema.kind is Kind.ELEMENTWISE and schema.kernels and "float32" in (schema.dtypes or ("float32",)):
            names = [f"X{i}" for i in range(schema.inputs[0])]
            found.append(OperatorDef.of(schema.type, names, ["Y"], domain=schema.domain, exponent=2.0))
    return found


def test_every_elementwise_operator_gives_the_same_result_in_tiles() -> None:
    with_options = set()
    for op in elementwise_operators():
        turned = (normal(2, 3, 7, 5)[::step] for step in (1, -1))
        inputs = [*(array.copy() for array in turned), normal(2, 3, 7, 5)[..., ::-1].copy()][: len(op.input)]
        for option in tiled_options(op, inputs):
            expected = run_kernel(op, inputs, option.kernel.engine)[0]
            with np.errstate(all="ignore"):
                actual = run_option(op, inputs, option, workers=2)
            assert_close(actual, expected, what=f"{op.signature()} by {described(option)}")
            with_options.add(op.full_type)
    assert {"Relu", "Sigmoid", "Div", "onnx.Log", "onnx.Clip", "caffe.Power", "tflite.Atan2"} <= with_options
    assert not {"EQ", "onnx.IsNaN"} & with_options, "their results are no floats"


@pytest.mark.parametrize("type", ["Add", "Mul", "Sum", "Sub", "Max"])
def test_elementwise_operators_of_two_inputs(type: str) -> None:
    inputs = [normal(2, 3, 7, 5), normal(2, 3, 7, 5)[::-1].copy()]
    assert_options_agree((OperatorDef.of(type, ["A", "B"], ["Y"]), inputs, ()), workers=2, least=4)


def test_broadcast_operands_have_no_options() -> None:
    op = OperatorDef.of("Mul", ["A", "B"], ["Y"], broadcast=1, axis=1)
    assert tiled_options(op, [normal(2, 3, 7, 5), normal(3)]) == []


def test_concat() -> None:
    op = OperatorDef.of("Concat", ["A", "B", "C"], ["Y", "sizes"], axis=1)
    assert_options_agree((op, [normal(2, c, 7, 5) for c in (3, 1, 4)], ()), workers=2, least=4)


def test_concat_along_rows_has_no_options() -> None:
    op = OperatorDef.of("Concat", ["A", "B"], ["Y", "sizes"], axis=2)
    assert tiled_options(op, [normal(2, 3, 7, 5), normal(2, 3, 2, 5)]) == []


def test_batch_norm() -> None:
    inputs = [normal(2, 6, 7, 5), normal(6), normal(6), normal(6), np.abs(normal(6)) + np.float32(0.5)]
    op = OperatorDef.of("SpatialBN", ["X", "s", "b", "m", "v"], ["Y"], is_test=1)
    assert_options_agree((op, inputs, (1, 2, 3, 4)), workers=2, least=4)
    fused = OperatorDef.of(
        "FusedBatchNorm", ["X", "s", "b", "m", "v", "A"], ["Y"], domain="armnet", is_test=1, activation="Relu"
    )
    assert_options_agree((fused, [*inputs, normal(2, 6, 7, 5)], (1, 2, 3, 4)), workers=2, least=4)
    swish = OperatorDef.of(
        "FusedBatchNorm", ["X", "s", "b", "m", "v"], ["Y"], domain="armnet", is_test=1, activation="onnx.HardSwish"
    )
    assert_options_agree((swish, [normal(1, 6, 2, 1), *inputs[1:]], (1, 2, 3, 4)), least=4)


def test_all_options_use_the_engine_that_is_asked_for() -> None:
    inputs = [normal(1, 16, 14, 14), normal(16, 16, 3, 3), normal(16)]
    for engine, expected in (("WINOGRAD", {"WINOGRAD"}), ("IM2COL", {"IM2COL"}), ("!WINOGRAD", {"IM2COL"})):
        op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], engine=engine, kernel=3, pad=1)
        assert {option.kernel.engine for option in tiled_options(op, inputs, (1, 2))} == expected


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("sizes", [(60, 61), (61, 60)])
def test_weights_kept_across_plans_suit_the_padding_of_each_plan(kernel: int, sizes: Tuple[int, int]) -> None:
    """With a stride of 2, the same ``auto_pad`` pads images of odd and of even sizes differently."""
    draw = np.random.default_rng(0)
    op = OperatorDef.of(
        "Conv",
        ["x", "w"],
        ["y"],
        domain="onnx",
        auto_pad="SAME_UPPER",
        strides=[2, 2],
        kernel_shape=[kernel, kernel],
        group=16,
    )
    net = NetDef("test", (op,), ("x", "w"), ("y",))
    weights = {"w": draw.standard_normal((16, 1, kernel, kernel)).astype(np.float32)}
    with tiles_everywhere():
        executor = Executor(net, weights)
        for size in sizes:
            feeds = {"x": draw.standard_normal((1, 16, size, size)).astype(np.float32)}
            expected = Executor(net, weights).run(feeds, ["y"])["y"]
            np.testing.assert_array_equal(executor.run(feeds, ["y"])["y"], expected)
            engines = {step.engine for step in executor.plan(feeds, ["y"]).running}
            assert engines & {"DEPTHWISE", "TOEPLITZ"}


@given(st.data())
@settings(max_examples=60)
def test_conversions(data: Any) -> None:
    shape = tuple(data.draw(st.sampled_from([1, 2, 3, 6, 9, 13])) for _ in range(4))
    tiles = [Tiles(*shape, *choice) for choice in ((1, 0), (1, 1), (1, 2), (2, 1), (4, 1), (4, 0))]
    layouts = st.sampled_from([None, *tiles, Planes(tiles[1]), Planes(tiles[3])])
    x = normal(*shape)
    of, to = data.draw(layouts), data.draw(layouts)
    assume(of != to)
    spec = specs_of([x])[0]
    assert spec is not None
    option = Option((of,), (to,), *conversion(spec, of, to))
    op = OperatorDef.of("ChangeLayout", ["X"], ["Y"], domain="armnet")
    np.testing.assert_array_equal(run_option(op, [x], option, workers=2, slices=data.draw(st.booleans())), x)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("image", [(8, 10), (30, 28), (9, 7)])
def test_max_pools_and_means_of_planes(image: Tuple[int, int], workers: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    pool = OperatorDef.of("MaxPool", ["X"], ["Y"], kernel=2, stride=2)
    options = assert_options_agree((pool, [normal(1, 24, *image)], ()), workers)
    assert any(isinstance(option.inputs[0], Planes) for option in options) == (image != (9, 7))
    mean = OperatorDef.of("AveragePool", ["X"], ["Y"], global_pooling=1)
    options = assert_options_agree((mean, [normal(1, 24, *image)], ()))
    assert any(isinstance(option.inputs[0], Planes) for option in options)


@pytest.mark.parametrize("type", ["Conv", "ConvRelu"])
@pytest.mark.parametrize("stride", [1, 2])
def test_stems_write_planes_and_pointwise_convolutions_read_them(type: str, stride: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    stem = OperatorDef.of(type, ["X", "W", "b"], ["Y"], kernel=3, stride=stride, pad=1)
    options = assert_options_agree((stem, [normal(1, 3, 30, 28), normal(16, 3, 3, 3), normal(16)], (1, 2)), 2)
    assert any(isinstance(option.outputs[0], Planes) for option in options)
    pointwise = OperatorDef.of(type, ["X", "W", "b"], ["Y"], kernel=1)
    options = assert_options_agree((pointwise, [normal(1, 24, 30, 28), normal(32, 24, 1, 1), normal(32)], (1, 2)), 2)
    assert any(isinstance(option.inputs[0], Planes) for option in options)


def test_convolutions_that_are_alike_have_their_options_made_once() -> None:
    known = KnownOptions()

    def found(op: OperatorDef, x: Any, w: Any, is_constant: bool = True) -> Any:
        inputs = [TensorSpec(x.shape, x.dtype), TensorSpec(w.shape, w.dtype, w if is_constant else None)]
        schema, outputs = infer_operator(op, inputs)
        return known.of(op, inputs, outputs, schema.choose(op, inputs, outputs)[0])

    def conv(name: str, **arguments: Any) -> OperatorDef:
        return OperatorDef.of("Conv", [name, f"{name}_w"], [f"{name}_y"], kernel=3, **arguments)

    x, w = normal(1, 8, 12, 12), normal(8, 8, 3, 3)
    first = found(conv("a", pad=1), x, w)
    assert first
    assert found(conv("b", pad=1), x, 2 * w) is first
    assert found(conv("c", pad=1), normal(1, 8, 12, 13), w) is not first
    assert found(conv("d", pad=1, engine="!WINOGRAD"), x, w) is not first
    assert found(conv("e"), x, w) is not first
    assert found(conv("f", pad=1), x, w, is_constant=False) == []
