"""FFT: its transforms, agreement with the reference, multiplies, bounds, and when it is chosen or refused."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import fft, fft_tiles
from runtime_arm.engines.conv.fft_tiles import LEAST_TILES, Side, Tiling, best_tiling
from runtime_arm.engines.conv.fft_transforms import (
    PLANES,
    Spectrum,
    amplification,
    basis,
    frequencies,
    inverse,
    transform_filters,
)
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.registry.schema import lookup
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

Problem = Tuple[OperatorDef, List[Any]]
WEIGHTS = (1, 2)


@pytest.mark.parametrize("period", [1, 3, 11, 16 + 15])
def test_the_basis_is_the_real_fourier_transform(period: int) -> None:
    x = np.random.default_rng(period).standard_normal(period)
    spectrum, half = basis(period, range(period)) @ x, period // 2
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(spectrum[: half + 1], expected.real, atol=1e-12)
    np.testing.assert_allclose(spectrum[half + 1 :], -expected.imag[1:], atol=1e-12)
    np.testing.assert_allclose(spectrum @ inverse(period, period), x, atol=1e-12)


@pytest.mark.parametrize("period", [(1, 1), (1, 7), (5, 1), (7, 5)])
def test_products_of_spectra_are_circular_correlations(period: Tuple[int, int]) -> None:
    draw = np.random.default_rng(0)
    pixels, taps = draw.standard_normal(period), draw.standard_normal(period)
    upright, flat = (basis(p, range(p)) for p in period)
    v, spectrum = np.empty((PLANES, frequencies(period), 1)), Spectrum(period)
    for step in spectrum.split((upright @ pixels @ flat.T)[..., None], v):
        step()
    u = transform_filters(period, (1, 1), 1, taps[None, None])[..., 0, 0]
    real, products = np.empty((*period, 1)), u * v
    for step in spectrum.join(products, real):
        step()
    back = inverse(period[0], period[0]).T @ real[..., 0] @ inverse(period[1], period[1])
    for place in np.ndindex(*period):
        expected = (taps * np.roll(pixels, [-place[0], -place[1]], (0, 1))).sum()
        assert back[place] == pytest.approx(expected, abs=1e-12)


def problem(
    image: Tuple[int, int],
    filters: Tuple[int, int, int, int],
    batch: int = 1,
    dtype: str = "f4",
    type: str = "Conv",
    group: int = 1,
    **arguments: Any,
) -> Problem:
    draw = np.random.default_rng(filters[0])
    shapes = [(batch, filters[1] * group, *image), filters, filters[:1]]
    op = OperatorDef.of(type, ["X", "W", "b"], ["Y"], kernels=list(filters[2:]), group=group, **arguments)
    return op, [draw.standard_normal(shape).astype(dtype) for shape in shapes]


@st.composite
def problems(draw: Any) -> Problem:
    """Includes single pixels and channels, prime sizes, pads of more than half the kernel, groups, and dilations."""

    def pair(values: Any, count: int = 2) -> List[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    kernel = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)).filter(lambda kernel: kernel != (1, 1)))
    dilation, pads = pair(st.sampled_from([1, 1, 2])), pair(st.integers(0, 9), 4)
    sizes, reach = pair(st.sampled_from([1, 2, 3, 7, 13, 23, 37])), [d * (k - 1) + 1 for k, d in zip(kernel, dilation)]
    image = [max(n, r - head - tail) for n, r, head, tail in zip(sizes, reach, pads[:2], pads[2:])]
    group, depth, width = (draw(st.sampled_from(values)) for values in ([1, 1, 2, 5], [1, 3, 16], [1, 2, 16]))
    return problem(
        (image[0], image[1]),
        (group * width, depth, kernel[0], kernel[1]),
        group=group,
        batch=draw(st.integers(1, 2)),
        dtype=draw(st.sampled_from(["f4", "f8"])),
        type=draw(st.sampled_from(["Conv", "ConvRelu"])),
        dilations=dilation,
        pads=pads,
    )


def convolution(op: OperatorDef, inputs: List[Any]) -> Convolution:
    return convolution_of(op, *specs_of(inputs)[:2])  # type: ignore[arg-type]


def assert_agrees(op: OperatorDef, inputs: List[Any], workers: int = 1) -> None:
    x, w, b = inputs[:3]
    (expected,) = run_kernel(op, inputs)
    (actual,) = run_kernel(op, inputs, "FFT", constants=WEIGHTS, workers=workers)
    terms = w[0].size + 1
    magnitude = terms * np.sqrt((w**2).mean() * (x**2).mean()) + np.abs(b).max()
    tiling = fft.best_tiling(convolution(op, inputs))
    assert tiling is not None
    grown = amplification(tiling.period, w.shape[2:])
    assert_close(actual, expected, terms=terms, magnitude=magnitude, amplification=grown)


@given(problems(), st.integers(1, 3))
@settings(max_examples=150)
def test_agrees_with_the_reference(drawn: Problem, workers: int) -> None:
    assert_agrees(*drawn, workers)


@pytest.mark.parametrize("tile", [1, 3, 6, 20, 64])
@pytest.mark.parametrize("group", [1, 4])
def test_tiles_and_blocks_join_seamlessly(tile: int, group: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(fft_tiles, "BLOCK_NBYTES", 30_000)
    monkeypatch.setattr(fft_tiles, "LEAST_TILES", 2)
    monkeypatch.setattr(fft, "best_tiling", lambda convolution: Tiling.of(convolution, tile))
    for dtype in ("f4", "f8"):
        for workers in (1, 2):
            assert_agrees(
                *problem((31, 45), (8, 4 // group, 5, 7), batch=2, dtype=dtype, group=group, pads=[4, 1, 0, 6]), workers
            )


@pytest.mark.parametrize(("tile", "filters"), [(4, (10, 3, 5, 5)), (4, (3, 1, 5, 5)), (20, (2, 1, 5, 5))])
def test_workers_split_columns_or_filters_of_a_single_row(tile: int, filters: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(fft, "best_tiling", lambda convolution: Tiling.of(convolution, tile))
    op, inputs = problem((4, 12), filters, pad=2)
    blocks = list(Tiling.of(convolution(op, inputs), tile).blocks(4, workers=2))
    assert len(blocks) == 2
    assert_agrees(op, inputs, workers=2)
    assert_agrees(op, inputs, workers=3)


def test_ends_with_the_epilogue_of_fused_operators() -> None:
    _, inputs = problem((40, 41), (12, 8, 7, 7))
    draw = np.random.default_rng(0)
    inputs += [9 * draw.standard_normal((1, 12, 40, 41)).astype("f4"), draw.uniform(0, 1, 12).astype("f4")]
    assert_agrees(
        OperatorDef.of(
            "FusedConv", ["X", "W", "b", "A", "s"], ["Y"], domain="armnet", kernel=7, pad=3, activation="PRelu"
        ),
        inputs,
    )


@given(st.integers(1, 40), st.integers(0, 20), st.integers(0, 20), st.integers(1, 15), st.integers(1, 40))
def test_no_pixel_is_read_by_wrapping_around(image: int, head: int, tail: int, kernel: int, tile: int) -> None:
    image = max(image, kernel - head - tail)
    op, inputs = problem((image, 1), (1, 1, kernel, 1), pads=[head, 0, tail, 0])
    side = Side.of(convolution(op, inputs).window, 0, tile)
    assert side.period % 2 == 1
    assert sum(map(side.outputs, range(side.tiles))) == side.output
    for number in range(side.tiles):
        begin, end = side.pixels(number)
        seen = {place + number * side.tile - head for place in range(side.tile + kernel - 1)}
        assert seen & set(range(image)) == set(range(begin, end))
        for output in range(side.tile):
            for tap in range(kernel):
                place = output + tap
                apart = {pixel: pixel - number * side.tile + head - place for pixel in range(begin, end)}
                assert all(apart[pixel] == 0 for pixel in apart if apart[pixel] % side.period == 0)


@pytest.mark.parametrize(
    ("kernel", "tile", "count"), [(5, 7, 3 * 61 / 7**2), (7, 9, 3 * 113 / 9**2), (31, 33, 3 * 1985 / 33**2)]
)
def test_multiplies_per_output_and_channel(kernel: int, tile: int, count: float) -> None:
    """1.5 multiplies per place, ((m + k - 1) / m)^2 places per output: 3.7, 4.2 and 5.5, not 25, 49 and 961."""
    op, inputs = problem((3 * tile, 2 * tile), (5, 3, kernel, kernel), pad=kernel // 2)
    tiling = Tiling.of(convolution(op, inputs), tile)
    filters = transform_filters(tiling.period, (1, 1), 1, inputs[1])
    assert filters.size == tiling.filter_size
    assert tiling.rows.tiles * tiling.columns.tiles == 6
    assert filters.size / (5 * 3) / tile**2 == pytest.approx(count)
    assert count < kernel**2 / 6


@pytest.mark.parametrize(
    ("shape", "filters", "engine"),
    [
        ((64, 28, 28), (64, 64, 5, 5), "FFT"),
        ((32, 112, 112), (32, 32, 7, 7), "FFT"),
        ((16, 56, 56), (16, 16, 15, 15), "FFT"),
        ((3, 9, 9), (4, 3, 5, 5), "IM2COL"),
        ((128, 56, 56), (128, 1, 31, 31), "FFT"),
        ((384, 14, 14), (384, 1, 7, 7), "FFT"),
        ((32, 112, 112), (32, 1, 5, 5), "DEPTHWISE"),
        ((144, 56, 56), (144, 1, 3, 3), "DEPTHWISE"),
        ((64, 56, 56), (64, 64, 3, 3), "WINOGRAD"),
        ((16, 56, 56), (16, 16, 3, 3), "IM2COL"),
    ],
)
def test_is_chosen_where_it_saves_time(shape: Any, filters: Any, engine: str) -> None:
    kernel, group = filters[-1], shape[0] // filters[1]
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=kernel, pad=kernel // 2, group=group)
    specs = specs_of([np.zeros((1, *shape), np.float32), np.zeros(filters, np.float32)], (1,))
    chosen, refusals = lookup(op).choose(op, specs, lookup(op).infer(op, specs))
    assert chosen is not None
    assert chosen.engine == engine
    assert engine == "FFT" or refusals["FFT"].startswith("it takes the time of ")
    forced, _ = lookup(op).choose(op.replace(engine="FFT"), specs, lookup(op).infer(op, specs))
    assert forced is not None
    assert forced.engine == "FFT"


@pytest.mark.parametrize("algorithm", ["FT8", "FT16"])
def test_is_chosen_for_the_fourier_algorithms_of_nnpack(algorithm: str) -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=5, engine="NNPACK", algo=algorithm)
    specs = specs_of([np.zeros((1, 1, 9, 9), np.float32), np.zeros((1, 1, 5, 5), np.float32)], (1,))
    kernel, _ = lookup(op).choose(op, specs, lookup(op).infer(op, specs))
    assert kernel is not None
    assert kernel.engine == "FFT"


@pytest.mark.parametrize(
    ("x", "w", "arguments", "constants", "reason"),
    [
        ((1, 4, 20, 20), (4, 4, 5, 5), {"stride": 2}, (1,), "the stride must be 1, got [2, 2]"),
        ((1, 20, 20, 4), (4, 5, 5, 4), {"order": "NHWC"}, (1,), "the order must be NCHW"),
        ((1, 4, 20), (4, 4, 5), {}, (1,), "there must be two spatial dimensions, got 1"),
        ((1, 4, 20, 20), (4, 4, 1, 1), {}, (1,), "the kernel must have more than one pixel"),
        ((1, 4, 20, 20), (4, 4, 5, 5), {}, (), "the weights must be constant"),
        ((0, 4, 20, 20), (4, 4, 5, 5), {}, (1,), "there must be pixels, channels and filters"),
    ],
)
def test_refuses(x: Any, w: Any, arguments: Any, constants: Any, reason: str) -> None:
    kernel = w[1:-1] if "order" in arguments else w[2:]
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernels=list(kernel), **arguments)
    schema, specs = lookup(op), specs_of([np.zeros(x, np.float32), np.zeros(w, np.float32)], constants)
    assert schema.kernels["FFT"].supports(op, specs, schema.infer(op, specs)) == reason


@pytest.mark.parametrize(
    ("x", "w", "dilation"), [((1, 1, 1, 9000), (1, 1, 1, 300), 1), ((1, 64, 99, 99), (64, 64, 3, 3), 40)]
)
def test_refuses_what_would_take_too_much_memory(x: Any, w: Any, dilation: int) -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernels=list(w[2:]), dilation=dilation)
    schema, specs = lookup(op), specs_of([np.zeros(x, np.float32), np.zeros(w, np.float32)], (1,))
    refusal = schema.kernels["FFT"].supports(op, specs, schema.infer(op, specs))
    assert refusal is not None
    assert "takes circles of more than 255 places, or 8 times the memory of the filters" in refusal


def test_refuses_float16() -> None:
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=5)
    operands = [np.zeros(shape, np.float16) for shape in ((1, 4, 20, 20), (4, 4, 5, 5))]
    schema, specs = lookup(op), specs_of(operands, (1,))
    refusal = schema.kernels["FFT"].supports(op, specs, schema.infer(op, specs))
    assert refusal == "the type must be one of float32, float64, got float16"


@pytest.mark.parametrize("filters", [(32, 32, 7, 7), (32, 1, 13, 13)])
def test_a_run_allocates_nothing(filters: Any) -> None:
    op, inputs = problem((57, 60), filters, batch=2, pad=filters[-1] // 2, group=32 // filters[1])
    assert allocated_nbytes(op, inputs, "FFT", constants=WEIGHTS) < NUMPY_NBYTES


@pytest.mark.parametrize(("channels", "group"), [(64, 1), (64, 64), (512, 1)])
def test_scratch_is_bounded_for_any_image_size(channels: int, group: int) -> None:
    """The bound is BLOCK_NBYTES, or the size of LEAST_TILES tiles if that is larger."""
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=7, pad=3, group=group)
    for size in (56, 256, 2048):
        specs = specs_of(
            [
                np.broadcast_to(np.float32(0), shape)
                for shape in ((1, channels, size, size), (channels, channels // group, 7, 7))
            ],
            (1,),
        )
        schema = lookup(op)
        tiling = best_tiling(convolution_of(op, *specs[:2]))  # type: ignore[arg-type]
        assert tiling is not None
        least = 2 * 4 * tiling.tile_size() * (1 if group > 1 else LEAST_TILES)
        buffers = schema.kernels["FFT"].scratch(op, specs, schema.infer(op, specs))
        assert sum(spec.nbytes for spec in buffers) <= max(fft_tiles.BLOCK_NBYTES, least)
        assert tiling.filter_size <= max(fft_tiles.FILTER_SIZE, fft_tiles.FILTER_GROWTH * specs[1].size)  # type: ignore[union-attr]
