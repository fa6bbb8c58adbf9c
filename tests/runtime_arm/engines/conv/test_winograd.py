"""WINOGRAD: its transforms, agreement with the reference, multiplies, and when it is chosen or refused."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm, winograd
from runtime_arm.engines.conv.winograd_transforms import amplification, multiplies_per_output, transforms
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

Problem = Tuple[OperatorDef, List[Any]]
WEIGHTS = (1, 2)


@pytest.mark.parametrize(("tile", "taps"), [(2, 3), (4, 3), (6, 3), (2, 5), (4, 5), (2, 7)])
def test_transforms_correlate(tile: int, taps: int) -> None:
    output, filters, inputs = transforms(tile, taps)
    draw = np.random.default_rng(tile)
    d, g = draw.integers(-9, 10, tile + taps - 1).astype(float), draw.integers(-9, 10, taps).astype(float)
    np.testing.assert_allclose(output @ ((filters @ g) * (inputs @ d)), np.correlate(d, g, "valid"), atol=1e-11)


def test_transforms_are_those_of_the_paper() -> None:
    output, filters, inputs = transforms(2)
    assert output.tolist() == [[1, 1, 1, 0], [0, 1, -1, 1]]
    assert np.abs(filters).tolist() == [[1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]]
    assert transforms(4).input[0].tolist() == [1, 0, -1.25, 0, 0.25, 0]
    assert np.abs(inputs).sum(1).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(("tile", "taps"), [(2, 3), (4, 3), (6, 3), (2, 5), (4, 5)])
def test_each_end_pixel_goes_into_one_frequency_only(tile: int, taps: int) -> None:
    first, last = transforms(tile, taps).input[:, 0], transforms(tile, taps).input[:, -1]
    assert first.tolist() == [1] + [0] * (tile + taps - 2)
    assert last.tolist() == [0] * (tile + taps - 2) + [1]


@pytest.mark.parametrize(("tile", "taps", "count"), [(2, 3, 4.0), (4, 3, 2.25), (2, 5, 9.0), (4, 5, 4.0)])
def test_multiplies_per_output_and_channel(tile: int, taps: int, count: float) -> None:
    op, inputs = problem((24, 40), 5, 7, taps=taps, pad=taps // 2)
    convolution = convolution_of(op, *specs_of(inputs)[:2])  # type: ignore[arg-type]
    tiling = winograd.Tiling(convolution, tile, 4)
    tiles = sum(block.extent[0] * block.extent[1] for block in tiling.blocks())
    assert multiplies_per_output(tile, taps) == count
    assert tiles * tiling.reach**2 / (24 * 40) == count


def problem(
    image: Tuple[int, int],
    channels: int,
    filters: int,
    batch: int = 1,
    dtype: str = "f4",
    type: str = "Conv",
    taps: int = 3,
    **arguments: Any,
) -> Problem:
    draw = np.random.default_rng(channels)
    shapes = [(batch, channels, *image), (filters, channels, taps, taps), (filters,)]
    op = OperatorDef.of(type, ["X", "W", "b"], ["Y"], kernel=taps, **arguments)
    return op, [draw.standard_normal(shape).astype(dtype) for shape in shapes]


@st.composite
def problems(draw: Any) -> Problem:
    """Includes single pixels and channels, prime sizes, and pads of more than half the kernel."""
    pads, taps = draw(st.lists(st.integers(0, 5), min_size=4, max_size=4)), draw(st.sampled_from([3, 5]))
    sizes = st.sampled_from([1, 2, 3, 5, 7, 11, 13, 17])
    image = [max(draw(sizes), taps - pads[axis] - pads[axis + 2]) for axis in (0, 1)]
    return problem(
        (image[0], image[1]),
        draw(st.sampled_from([1, 2, 5, 64])),
        draw(st.sampled_from([1, 3, 64])),
        batch=draw(st.integers(0, 2)),
        dtype=draw(st.sampled_from(["f4", "f8"])),
        type=draw(st.sampled_from(["Conv", "ConvRelu"])),
        taps=taps,
        pads=pads,
    )


def assert_agrees(op: OperatorDef, inputs: List[Any], tile: int) -> None:
    x, w, b = inputs[:3]
    (expected,) = run_kernel(op, inputs)
    taps = w.shape[-1]
    op = op.replace(engine=f"WINOGRAD:f{tile}x{tile}_{taps}x{taps}")
    (actual,) = run_kernel(op, inputs, "WINOGRAD", constants=WEIGHTS)
    terms = w[0].size + 1
    magnitude = terms * np.sqrt((w**2).mean() * (x**2).sum() / max(x.size, 1)) + np.abs(b).max()
    assert_close(actual, expected, terms=terms, magnitude=magnitude, amplification=amplification(tile, tile, taps))


@given(problems(), st.sampled_from([2, 4]))
@settings(max_examples=150)
def test_agrees_with_the_reference(drawn: Problem, tile: int) -> None:
    assert_agrees(*drawn, tile)


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("image", [(61, 13), (5, 67), (32, 32)])
def test_blocks_join_seamlessly(image: Tuple[int, int], tile: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(winograd, "BLOCK_NBYTES", 6000)
    for dtype in ("f4", "f8"):
        assert_agrees(*problem(image, 5, 3, batch=2, dtype=dtype, pad=1), tile)


def test_panels_of_filters_join_seamlessly(monkeypatch: Any) -> None:
    monkeypatch.setattr(winograd, "SMALL_PRODUCT", 40 * 5 * 16)
    assert_agrees(*problem((16, 16), 5, 96, dtype="f8", pad=1), 4)


@pytest.mark.parametrize("tile", [2, 4])
def test_ends_with_the_epilogue_of_fused_operators(tile: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(winograd, "BLOCK_NBYTES", 60_000)
    _, inputs = problem((40, 41), 48, 33, pad=1)
    draw = np.random.default_rng(0)
    inputs += [9 * draw.standard_normal((1, 33, 40, 41)).astype("f4"), draw.uniform(0, 1, 33).astype("f4")]
    fused = OperatorDef.of(
        "FusedConv", ["X", "W", "b", "A", "s"], ["Y"], domain="armnet", kernel=3, pad=1, activation="PRelu"
    )
    assert_agrees(fused, inputs, tile)


def test_wide_tiles_and_kernels_cost_accuracy() -> None:
    assert 1 < amplification(2, 2) < amplification(2, 4) < amplification(2, 2, 5) < amplification(4, 4)


@pytest.mark.parametrize(
    ("engine", "tile"),
    [("", None), ("NNPACK", None), ("WINOGRAD:f4x4_3x3", None), ("WINOGRAD:f2x2_5x5", 2), ("WINOGRAD:f4x4_5x5", 4)],
)
def test_takes_larger_kernels_only_if_their_variant_is_named(engine: str, tile: Any) -> None:
    op, inputs = problem((28, 28), 64, 64, taps=5, pad=2, engine=engine)
    schema, specs = lookup(op), specs_of(inputs, WEIGHTS)
    kernel, refusals = schema.choose(op, specs, schema.infer(op, specs))
    assert kernel is not None
    assert kernel.engine == ("FFT" if tile is None else "WINOGRAD")
    if tile is None:
        assert "no variant for a kernel of [5, 5]" in refusals["WINOGRAD"]
    else:
        assert winograd.choose_tile(op, convolution_of(op, *specs[:2])) == tile  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("small", "channels", "size", "engine", "tile"),
    [
        (False, 64, 56, "WINOGRAD", 4),
        (False, 128, 28, "WINOGRAD", 4),
        (False, 256, 14, "WINOGRAD", 4),
        (False, 512, 7, "WINOGRAD", 2),
        (True, 128, 28, "WINOGRAD", 4),
        (True, 256, 14, "WINOGRAD", 2),
        (False, 3, 56, "IM2COL", None),
        (False, 16, 56, "IM2COL", None),
        (False, 64, 1, "IM2COL", None),
    ],
)
def test_is_chosen_where_it_saves_time(
    small: bool, channels: int, size: int, engine: str, tile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    op, inputs = problem((size, size), channels, channels, pad=1)
    schema, specs = lookup(op), specs_of(inputs, WEIGHTS)
    kernel, refusals = schema.choose(op, specs, schema.infer(op, specs))
    assert kernel is not None
    assert kernel.engine == engine
    if tile is None:
        assert refusals["WINOGRAD"].startswith("it takes the time of ")
    else:
        assert winograd.choose_tile(op, convolution_of(op, *specs[:2])) == tile  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("w", "arguments", "constants", "reason"),
    [
        ((64, 64, 5, 5), {"kernel": 5}, (1,), "no variant for a kernel of [5, 5] is asked for, or left open"),
        ((64, 64, 3, 3), {"kernel": 3, "engine": "WINOGRAD:f4x4_5x5"}, (1,), "no variant for a kernel of [3, 3]"),
        ((64, 64, 3), {"kernels": [3]}, (1,), "there must be two spatial dimensions, got 1"),
        ((64, 64, 7, 7), {"kernel": 7}, (1,), "the kernel must be 3x3, or 5x5 by name, got [7, 7]"),
        ((64, 64, 3, 3), {"kernel": 3, "stride": 2}, (1,), "the stride must be 1, got [2, 2]"),
        ((64, 64, 3, 3), {"kernel": 3, "dilation": 2}, (1,), "the dilation must be 1, got [2, 2]"),
        ((64, 32, 3, 3), {"kernel": 3, "group": 2}, (1,), "there must be one group, got 2"),
        ((64, 3, 3, 64), {"kernel": 3, "order": "NHWC"}, (1,), "the order must be NCHW"),
        ((31, 64, 3, 3), {"kernel": 3}, (), "weights that change must be of 32 channels and filters at least, got 31"),
    ],
)
def test_refuses(w: Any, arguments: Any, constants: Any, reason: str) -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], **arguments)
    schema = lookup(op)
    specs = specs_of([np.zeros((1, 64, 64, 64)[: len(w)], np.float32), np.zeros(w, np.float32)], constants)
    refusal = schema.kernels["WINOGRAD"].supports(op, specs, schema.infer(op, specs))
    assert refusal is not None
    assert reason in refusal


def test_a_run_allocates_nothing() -> None:
    op, inputs = problem((57, 60), 64, 64, batch=2, pad=1)
    assert allocated_nbytes(op, inputs, "WINOGRAD", constants=WEIGHTS) < NUMPY_NBYTES


def test_scratch_is_bounded_for_any_image_size() -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, pad=1)
    sizes = []
    for size in (256, 2048):
        x = np.broadcast_to(np.float32(0), (1, 64, size, size))
        specs = specs_of([x, np.zeros((64, 64, 3, 3), np.float32)], (1,))
        schema = lookup(op)
        sizes.append(sum(s.nbytes for s in schema.kernels["WINOGRAD"].scratch(op, specs, schema.infer(op, specs))))
    assert max(sizes) <= 2 * winograd.BLOCK_NBYTES
