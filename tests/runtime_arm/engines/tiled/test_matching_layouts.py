"""Layouts of a convolution's input that fit those of its results."""

from __future__ import annotations

from typing import Tuple

from hypothesis import assume, given
from hypothesis import strategies as st

from runtime_arm.engines.tiled import matching_layouts
from runtime_arm.engines.tiled.matching_layouts import in_step, reach_of
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import Convolution, convolution_of
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec


def convolution(image: Tuple[int, int], kernel: int, stride: int, pad: int) -> Tuple[TensorSpec, Convolution]:
    op = OperatorDef.of("Conv", ["x", "w"], ["y"], kernel=kernel, stride=stride, pad=pad)
    x, w = TensorSpec((2, 3, *image), "float32"), TensorSpec((4, 3, kernel, kernel), "float32")
    return x, convolution_of(op, x, w)


SIZES = st.integers(1, 30)


@given(st.tuples(SIZES, SIZES), st.integers(1, 5), st.integers(1, 9), st.integers(0, 3), st.sampled_from([1, 2, 4, 6]))
def test_the_first_border_that_fits_is_found(
    image: Tuple[int, int], kernel: int, stride: int, pad: int, tile: int
) -> None:
    assume(min(image) + 2 * pad >= kernel)
    x, conv = convolution(image, kernel, stride, pad)
    window, reach = conv.window, reach_of(conv)
    y = TensorSpec((2, 4, *window.output), "float32")
    for border in {0, 1, reach}:
        to = Tiles.of(y, tile, border)
        least = max(reach, border)
        every = (Tiles.of(x, stride * tile, around) for around in range(least, least + stride * tile + 1))
        fitting = (
            of for of in every if (of.pitch, of.rows) == (to.pitch, to.rows) and matching_layouts._holds(of, to, window)
        )
        assert in_step(x, to, window, reach, border) == next(fitting, None)


def test_a_stride_of_billions_takes_no_time() -> None:
    stride = (1 << 31) - 1
    x, conv = convolution((9, 9), 1, stride, 0)
    window = conv.window
    found = in_step(x, Tiles.of(TensorSpec((2, 4, *window.output), "float32"), 1, 0), window, reach_of(conv), 0)
    assert found is not None
    assert found.tile == stride
