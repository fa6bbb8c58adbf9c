"""Layouts of blobs: neighbours agree, fetched blobs have their own shape, and sharing memory changes no bit."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_close
from runtime_arm import Predictor
from runtime_arm.engines.conv import gemm
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.planning.plan import Segment
from runtime_arm.registry.kernel import REFERENCE
from runtime_arm.registry.layouts import Tiles
from tests.support.tiles import tiles_everywhere


def chain(*ops: OperatorDef, output: str) -> NetDef:
    produced = {name for op in ops for name in op.output}
    given = dict.fromkeys(name for op in ops for name in op.input if name not in produced)
    return NetDef(name="chain", op=ops, external_input=tuple(given), external_output=(output,))


def conv(x: str, y: str, kernel: int = 3, **arguments: Any) -> OperatorDef:
    return OperatorDef.of("Conv", [x, f"{y}_w"], [y], kernel=kernel, pad=kernel // 2, **arguments)


def weights(net: NetDef, channels: int) -> Dict[str, Any]:
    draw = np.random.default_rng(0)
    kinds = {op.input[1]: (op.get_int("kernel"), op.get_int("group", 1)) for op in net.op if op.type == "Conv"}
    return {
        name: draw.standard_normal((channels, channels // group, size, size)).astype(np.float32) / channels
        for name, (size, group) in kinds.items()
    }


def predictor(net: NetDef, channels: int) -> Predictor:
    fills = tuple(
        OperatorDef.of("GivenTensorFill", [], [name], shape=list(w.shape), values=w.reshape(-1))
        for name, w in weights(net, channels).items()
    )
    init = NetDef(name="init", op=fills, external_output=tuple(fill.output[0] for fill in fills))
    return Predictor(init, net, threads=1)


def planned(net: NetDef, channels: int = 64, size: int = 28) -> Segment:
    p = predictor(net, channels)
    p.run({"x": np.zeros((1, channels, size, size), np.float32)})
    return p.executor.plans()[-1]


def changes(segment: Segment) -> List[str]:
    return [step.op.input[0] for step in segment.steps if step.op.type == "ChangeLayout"]


def test_convolutions_pass_tiles_to_each_other() -> None:
    net = chain(conv("x", "a"), OperatorDef.of("Relu", ["a"], ["r"]), conv("r", "b"), conv("b", "c"), output="c")
    segment = planned(net)
    assert changes(segment) == ["x", "c"]
    assert [step.engine for step in segment.steps if step.op.type == "Conv"] == ["WINOGRAD"] * 3


@pytest.mark.parametrize(
    ("small", "size", "variant"),
    [
        (True, 14, "f2x4_3x3"),
        (True, 28, "f2x2_3x3"),
        (False, 14, "f2x2_3x3"),
    ],
)
def test_wide_tiles_are_used_only_where_they_are_asked_for(
    small: bool, size: int, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    op = conv("x", "a").replace(engine="WINOGRAD:f2x4_3x3")
    (step,) = (step for step in planned(chain(op, output="a"), 256, size).steps if step.op.type == "Conv")
    assert step.kernel is not None
    assert step.kernel.variants == (variant,)


def test_a_step_has_no_refusal_for_its_own_engine() -> None:
    (step,) = (step for step in planned(chain(conv("x", "a"), output="a"), 64, 14).steps if step.op.type == "Conv")
    assert step.engine == "WINOGRAD"
    assert "WINOGRAD" not in step.refusals
    assert "FFT" in step.refusals


def test_a_residual_block_stays_in_tiles() -> None:
    net = chain(
        conv("x", "a"),
        conv("a", "b"),
        conv("b", "c"),
        OperatorDef.of("Add", ["a", "c"], ["s"]),
        conv("s", "d"),
        output="d",
    )
    assert changes(planned(net)) == ["x", "d"]


def test_a_blob_is_converted_once() -> None:
    net = chain(
        conv("x", "a"),
        conv("a", "b"),
        OperatorDef.of("Softmax", ["a"], ["p"], axis=1),
        OperatorDef.of("Softmax", ["a"], ["q"], axis=1),
        OperatorDef.of("Sum", ["p", "q"], ["s"]),
        OperatorDef.of("Flatten", ["b"], ["f"]),
        OperatorDef.of("Flatten", ["s"], ["g"]),
        OperatorDef.of("Sum", ["f", "g"], ["y"]),
        output="y",
    )
    assert sorted(changes(planned(net))) == ["a", "b", "x"]


def test_fetching_changes_no_result() -> None:
    net = chain(
        conv("x", "a"), OperatorDef.of("Relu", ["a"], ["r"]), conv("r", "b"), conv("b", "c", stride=2), output="c"
    )
    x = np.random.default_rng(1).standard_normal((2, 48, 21, 18)).astype(np.float32)
    with predictor(net, 48) as p:
        alone, kept = p.run({"x": x}), p.run({"x": x}, keep=["a", "r", "b"])
    np.testing.assert_array_equal(alone["c"], kept["c"])
    assert kept["a"].shape == (2, 48, 21, 18)
    np.testing.assert_array_equal(np.maximum(kept["a"], 0), kept["r"])


def test_tiles_and_the_reference_agree() -> None:
    ops = (
        conv("x", "a"),
        OperatorDef.of("Relu", ["a"], ["r"]),
        conv("r", "b", 1),
        conv("b", "c", stride=2),
        OperatorDef.of("MaxPool", ["c"], ["p"], kernel=3, stride=2),
        conv("p", "y"),
    )
    plain = tuple(op.replace(engine=REFERENCE) for op in ops)
    x = np.random.default_rng(1).standard_normal((1, 64, 37, 41)).astype(np.float32)
    with predictor(chain(*ops, output="y"), 64) as fast, predictor(chain(*plain, output="y"), 64) as slow:
        assert_close(fast.run({"x": x})["y"], slow.run({"x": x})["y"], terms=9 * 64 * 4, amplification=256)


@pytest.mark.parametrize("small", [True, False])
def test_kept_weights_are_right_for_every_size_of_image(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    relu = OperatorDef.of("Relu", ["a"], ["r"])
    pool = OperatorDef.of("MaxPool", ["c"], ["p"], kernel=3, stride=2, pad=1)
    net = chain(
        conv("x", "a"),
        relu,
        conv("r", "b", group=16),
        conv("b", "c", 1),
        pool,
        conv("p", "d", stride=2),
        conv("d", "e", group=16, stride=2),
        conv("e", "f", 1),
        output="f",
    )
    draw = np.random.default_rng(2)
    sizes = [(1, (28, 28)), (1, (27, 31)), (2, (28, 28)), (1, (5, 40)), (1, (29, 28)), (1, (1, 1))]
    images = [draw.standard_normal((batch, 16, *size)).astype(np.float32) for batch, size in sizes]
    with predictor(net, 16) as one:
        for x in [*images, *images[::-1], *images]:
            with predictor(net, 16) as fresh:
                np.testing.assert_array_equal(one.run({"x": x})["f"], fresh.run({"x": x})["f"])


@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize("border", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 7, 8, 9])
def test_neighbours_lie_a_fixed_distance_away(tile: int, border: int, size: int) -> None:
    layout = Tiles(2, 1, size, size + 1, tile, border)
    memory = np.zeros(layout.storage(np.dtype(np.float32)).shape, np.float32)
    image = np.arange(1, 2 * size * (size + 1) + 1, dtype=np.float32).reshape(2, size, size + 1)
    for phase in np.ndindex(tile, tile):
        layout.pixels(memory, phase)[..., 0] = image[:, phase[0] :: tile, phase[1] :: tile]
    padded = np.pad(image, ((0, 0), (border, border), (border, border)))
    for dy, dx in ((0, 0), (-border, 0), (0, border), (border, -border)):
        for y, x in np.ndindex(size, size + 1):
            (row, ty), (column, tx) = (divmod(n, tile)[::-1] for n in (y, x))
            py, down = layout.neighbour(0, row + dy)
            px, right = layout.neighbour(1, column + dx)
            position = layout.guard + ty * layout.pitch + tx + down + right
            assert memory[py, px, position, 0] == padded[0, y + dy + border, x + dx + border]


def test_a_large_image_needs_little_more_memory_than_its_own() -> None:
    """The input and the output in tiles; columns, transforms and products go through blocks of bounded size."""
    with predictor(chain(conv("x", "y"), output="y"), 64) as p:
        segment = p.plan({"x": (1, 64, 1024, 1024)})
    blobs = 2 * 64 * 1024 * 1024 * 4
    scratch = sum(spec.nbytes for step in segment.steps for spec in step.scratch)
    assert [step.engine for step in segment.steps if step.op.type == "Conv"] == ["WINOGRAD"]
    assert scratch < 32 << 20
    assert segment.arena_nbytes < 1.1 * blobs


def test_constants_and_values_of_an_earlier_segment_are_converted_to_tiles() -> None:
    border = [OperatorDef.of("NonZero", ["x"], ["n"], domain="onnx"), OperatorDef.of("Shape", ["n"], ["y"])]
    image = OperatorDef.of("ConstantFill", [], ["i"], shape=[1, 16, 9, 9], value=0.5)
    ops = [
        OperatorDef.of("Relu", ["x"], ["r"]),
        *border,
        image,
        conv("r", "a", 1),
        conv("i", "b"),
        conv("x", "c"),
        OperatorDef.of("Add", ["a", "r"], ["s"]),
        OperatorDef.of("Concat", ["a", "b", "c", "i", "r", "s"], ["d", "_"], axis=1),
    ]
    plain = [op.replace(engine=REFERENCE) for op in ops]
    x = np.random.default_rng(3).standard_normal((1, 16, 9, 9)).astype(np.float32)
    with tiles_everywhere(), predictor(chain(*ops, output="d"), 16) as fast:
        actual = fast.run({"x": x})["d"]
        second = next(iter(fast.executor.plans()[-1].successors.values()))
        assert {"r", "x", "i"} <= set(changes(second))
    with predictor(chain(*plain, output="d"), 16) as slow:
        assert_close(actual, slow.run({"x": x})["d"], terms=9 * 16, amplification=256)


@pytest.mark.parametrize("axis", [0, 2, 3])
def test_a_single_blob_can_be_joined_along_any_dimension(axis: int) -> None:
    join = OperatorDef.of("Concat", ["a"], ["b", "_"], axis=axis)
    net = chain(conv("x", "a"), join, conv("b", "c"), output="c")
    x = np.random.default_rng(4).standard_normal((1, 16, 9, 9)).astype(np.float32)
    with tiles_everywhere(), predictor(net, 16) as p, predictor(chain(net.op[0], conv("a", "c"), output="c"), 16) as q:
        np.testing.assert_array_equal(p.run({"x": x})["c"], q.run({"x": x})["c"])
