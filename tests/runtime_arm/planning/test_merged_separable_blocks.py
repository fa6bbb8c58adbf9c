"""A plan merges a depthwise convolution and its neighbours into one step: when, and what is visible from outside."""

from __future__ import annotations

from typing import List, Sequence, Tuple

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm import Predictor
from runtime_arm.engines.conv import gemm
from runtime_arm.execution.paranoid import run_paranoid
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.pair import Pair
from runtime_arm.planning.cost import cost_of
from runtime_arm.planning.plan import Segment
from runtime_arm.registry.layouts import Planes

X = np.random.default_rng(1).standard_normal((2, 16, 28, 30)).astype(np.float32)
SHAPES = {"e": (96, 16, 1, 1), "f": (96, 1, 3, 3), "p": (16, 96, 1, 1)}
MERGED, APART = ["armnet.SeparableBlock"], ["Conv", "ConvRelu", "ConvRelu"]
OF_TWO = ["Conv", *MERGED]  # the first two are merged


def pair(engines: Sequence[str] = ("", "", ""), outputs: Tuple[str, ...] = ("y",)) -> Pair:
    """x - 1x1 - e - 3x3 - f - 1x1 - p, and y = p + x."""
    ops = (
        OperatorDef.of("ConvRelu", ["x", "e_w", "e_b"], ["e"], kernel=1, engine=engines[0]),
        OperatorDef.of("ConvRelu", ["e", "f_w"], ["f"], kernel=3, pad=1, group=96, engine=engines[1]),
        OperatorDef.of("Conv", ["f", "p_w", "p_b"], ["p"], kernel=1, engine=engines[2]),
        OperatorDef.of("Add", ["p", "x"], ["y"]),
    )
    draw = np.random.default_rng(0)
    values = {f"{name}_w": draw.standard_normal(shape) / np.prod(shape[1:]) ** 0.5 for name, shape in SHAPES.items()}
    values.update({f"{name}_b": draw.standard_normal(SHAPES[name][0]) for name in ("e", "p")})
    fills = tuple(
        OperatorDef.of(
            "GivenTensorFill", [], [name], shape=list(value.shape), values=value.astype(np.float32).reshape(-1)
        )
        for name, value in values.items()
    )
    return Pair.from_nets(
        NetDef(name="init", op=fills, external_output=tuple(values)),
        NetDef(name="block", op=ops, external_input=("x", *values), external_output=outputs),
    )


def planned(net: Pair) -> Segment:
    with Predictor(net, threads=1) as predictor:
        return predictor.plan({"x": X.shape})


def convolutions(net: Pair) -> List[str]:
    """The types of the steps that run, sorted, without the addition and the layout conversions."""
    return sorted(step.op.full_type for step in planned(net).steps if step.op.type not in ("Add", "ChangeLayout"))


@pytest.fixture
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a CPU whose BLAS multiplies small matrices fast."""
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)


def test_a_block_is_merged_where_small_products_are_fast(small_products: None) -> None:
    assert convolutions(pair()) == MERGED


def test_a_block_is_not_merged_where_small_products_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: False)
    assert convolutions(pair()) == APART


def test_where_small_products_are_slow_two_are_merged_if_a_bias_can_be_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: False)
    block = pair()
    bias = np.linspace(-1, 1, 96).astype(np.float32)
    init_net = block.init_net.replace(op=(*block.init_net.op, fill("f_b", bias)))
    names = tuple(op.output[0] for op in init_net.op)
    ops = [op.replace(input=("e", "f_w", "f_b")) if op.output == ("f",) else op for op in block.predict_net.op]
    net = block.predict_net.replace(op=tuple(ops), external_input=("x", *names))
    biased = Pair.from_nets(init_net.replace(external_output=names), net)
    assert convolutions(biased) == ["ConvRelu", *MERGED]
    with Predictor(biased, threads=1) as predictor:
        alone, kept = predictor.run({"x": X}), predictor.run({"x": X}, keep=["f"])
    np.testing.assert_array_equal(alone["y"], kept["y"])
    apart = net.replace(op=tuple(op.replace(engine="REFERENCE") for op in ops))
    with Predictor(Pair.from_nets(biased.init_net, apart), threads=1) as predictor:
        expected = predictor.run({"x": X}, keep=["f"])
    for name, result in kept.items():
        assert_close(result, expected[name], terms=96 * 9 * 16, what=name)
    run_paranoid(biased, {"x": X})


@pytest.mark.parametrize(
    "engines", [("POINTWISE", "", ""), ("", "DEPTHWISE", ""), ("", "", "REFERENCE"), ("", "!TOEPLITZ", "")]
)
def test_engine_preferences_prevent_the_merge(engines: Sequence[str], small_products: None) -> None:
    assert convolutions(pair(engines)) in (APART, OF_TWO)


def test_a_convolution_is_part_of_one_block_only(small_products: None) -> None:
    """In 1x1, 3x3, 1x1, 3x3, 1x1, the middle convolution could end one block or begin another."""
    block = pair()
    wide = {"p": (96, 96, 1, 1), "g": (96, 1, 3, 3), "q": (16, 96, 1, 1)}
    weights = {f"{name}_w2": np.ones(shape, np.float32) / 96 for name, shape in wide.items()}
    ops = (
        *block.predict_net.op[:2],
        OperatorDef.of("ConvRelu", ["f", "p_w2"], ["p"], kernel=1),
        OperatorDef.of("ConvRelu", ["p", "g_w2"], ["g"], kernel=3, pad=1, group=96),
        OperatorDef.of("Conv", ["g", "q_w2"], ["y"], kernel=1),
    )
    init_net = block.init_net.replace(op=(*block.init_net.op, *(fill(*item) for item in weights.items())))
    names = tuple(op.output[0] for op in init_net.op)
    net = block.predict_net.replace(op=ops, external_input=("x", *names))
    merged = convolutions(Pair.from_nets(init_net.replace(external_output=names), net))
    of_two = ["Conv", "ConvRelu", "ConvRelu", *MERGED]
    assert merged in (["Conv", "ConvRelu", *MERGED], [*MERGED, *MERGED], of_two)


def test_what_two_read_ends_a_block(small_products: None) -> None:
    """x - 1x1 - e - 5x5 - f, and f is read twice."""
    block = pair()
    wide = np.ones((96, 1, 5, 5), np.float32) / 96
    ops = (
        block.predict_net.op[0],
        OperatorDef.of("Conv", ["e", "g_w"], ["f"], kernel=5, pad=2, group=96),
        OperatorDef.of("Relu", ["f"], ["y"]),
        OperatorDef.of("AveragePool", ["f"], ["z"], global_pooling=1),
    )
    init_net = block.init_net.replace(op=(*block.init_net.op, fill("g_w", wide)))
    names = tuple(op.output[0] for op in init_net.op)
    net = block.predict_net.replace(op=ops, external_input=("x", *names), external_output=("y", "z"))
    merged = Pair.from_nets(init_net.replace(external_output=names), net)
    assert convolutions(merged) == ["AveragePool", "Relu", *MERGED]
    plain = Predictor(merged, threads=1)
    small = plain.run({"x": X})
    np.testing.assert_allclose(small["z"], small["y"].mean((2, 3), keepdims=True), atol=2)


@pytest.mark.parametrize("between", ["e", "f"])
def test_an_output_of_the_net_inside_the_block_prevents_the_merge(between: str, small_products: None) -> None:
    assert convolutions(pair(outputs=(between, "y"))) in ([APART] if between == "e" else [APART, OF_TWO])


def test_fetching_changes_no_result(small_products: None) -> None:
    with Predictor(pair(), threads=1) as predictor:
        alone, kept = predictor.run({"x": X}), predictor.run({"x": X}, keep=["e", "f", "p"])
    np.testing.assert_array_equal(alone["y"], kept["y"])
    with Predictor(pair(["REFERENCE"] * 3), threads=1) as predictor:
        expected = predictor.run({"x": X}, keep=["e", "f", "p"])
    for name, result in kept.items():
        assert_close(result, expected[name], terms=96 * 9 * 16, what=name)


def test_a_paranoid_run_succeeds(small_products: None) -> None:
    run_paranoid(pair(), {"x": X})


def test_the_blobs_in_between_count_as_work_but_take_no_memory(small_products: None) -> None:
    segment = planned(pair())
    step = next(step for step in segment.steps if step.op.full_type in MERGED)
    pixels = X.size // X.shape[1]
    cost = cost_of(step.op, step.in_specs, step.out_specs)
    assert cost.multiply_adds == pixels * sum(int(np.prod(shape)) for shape in SHAPES.values())
    assert {value.name for step in segment.steps for value in step.outputs} == {"x", "p", "y"}


def test_a_block_of_few_channels_passes_planes_to_the_next_one(small_products: None) -> None:
    """The beginning of a MobileNetV2: a block with the first convolution, then a block with a stride of 2."""
    shapes = {
        "e": (96, 16, 1, 1),
        "f": (96, 1, 3, 3),
        "p": (16, 96, 1, 1),
        "g": (96, 16, 1, 1),
        "h": (96, 1, 3, 3),
        "y": (24, 96, 1, 1),
    }
    ops = (
        OperatorDef.of("ConvRelu", ["x", "e_w"], ["e"], kernel=1),
        OperatorDef.of("ConvRelu", ["e", "f_w"], ["f"], kernel=3, pad=1, group=96),
        OperatorDef.of("Conv", ["f", "p_w"], ["p"], kernel=1),
        OperatorDef.of("ConvRelu", ["p", "g_w"], ["g"], kernel=1),
        OperatorDef.of("ConvRelu", ["g", "h_w"], ["h"], kernel=3, pad=1, group=96, stride=2),
        OperatorDef.of("Conv", ["h", "y_w"], ["y"], kernel=1),
    )
    draw = np.random.default_rng(2)
    values = {
        f"{name}_w": (draw.standard_normal(shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }
    init_net = NetDef(op=tuple(fill(*item) for item in values.items()), external_output=tuple(values))
    net = Pair.from_nets(init_net, NetDef(op=ops, external_input=("x", *values), external_output=("y",)))
    x = draw.standard_normal((1, 16, 60, 56)).astype(np.float32)
    with Predictor(net, threads=1) as predictor:
        result = predictor.run({"x": x}, keep=["p"])
        layouts = {
            value.name: value.layout
            for step in predictor.plan({"x": x.shape}).steps
            for value in step.outputs
            if value.layout is not None
        }
    assert isinstance(layouts["p"], Planes)
    apart = [op.replace(engine="REFERENCE") for op in ops]
    plain = Pair.from_nets(init_net, net.predict_net.replace(op=tuple(apart)))
    with Predictor(plain, threads=1) as predictor:
        expected = predictor.run({"x": x}, keep=["p"])
    for name in ("p", "y"):
        assert_close(result[name], expected[name], terms=1000, magnitude=1000)
    run_paranoid(net, {"x": x})


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("rank", [1, 3])
def test_blocks_of_sounds_and_volumes_run_unmerged(rank: int, expanded: bool, small_products: None) -> None:
    """As in speech networks: the layouts of merged blocks are those of pictures."""
    draw, one, three = np.random.default_rng(2), [1] * rank, [3] * rank
    values = {"e_w": (16, 16, *one), "f_w": (16, 1, *three), "p_w": (4, 16, *one)}
    fills = tuple(fill(name, draw.standard_normal(shape).astype(np.float32)) for name, shape in values.items())
    ops = [
        OperatorDef.of("Conv", ["x", "e_w"], ["e"], kernels=one),
        OperatorDef.of(
            "ConvRelu", ["e" if expanded else "x", "f_w"], ["f"], kernels=three, pads=[1] * 2 * rank, group=16
        ),
        OperatorDef.of("Conv", ["f", "p_w"], ["y"], kernels=one),
    ][not expanded :]
    net = NetDef(op=tuple(ops), external_input=("x", *values), external_output=("y",))
    x = draw.standard_normal((2, 16, *[5] * rank)).astype(np.float32)
    plain = net.replace(op=tuple(op.replace(engine="REFERENCE") for op in ops))
    with Predictor(Pair.from_nets(NetDef(op=fills), net), threads=1) as predictor:
        result = predictor.run({"x": x})["y"]
    with Predictor(Pair.from_nets(NetDef(op=fills), plain), threads=1) as predictor:
        assert_close(result, predictor.run({"x": x})["y"], terms=16 * 16 * 3**rank)
