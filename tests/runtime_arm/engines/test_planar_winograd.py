"""Winograd with the channels first inside, against the reference, by one worker and by several."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from runtime_arm.engines import gemm, planar_winograd
from runtime_arm.layouts import Tiles
from runtime_arm.netdef import OperatorDef
from runtime_arm.tensor import TensorSpec
from tests.runtime_arm.engines.test_pooled_convolution import Problem
from tests.runtime_arm.engines.test_tilings import assert_options_agree, normal

Size = Tuple[int, int]


@pytest.fixture(autouse=True)
def for_few_channels(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(planar_winograd, "LEAST_CHANNELS", 1)
    monkeypatch.setattr(planar_winograd, "LEAST_POSITIONS", 1)


def tiles_that_suit(channels: int, image: Size, filters: int = 8, batch: int = 1) -> List[int]:
    layouts = ((tile, *(Tiles.of(TensorSpec((batch, depth, *image), "float32"), tile, 1) for depth in (
        channels, filters))) for tile in (2, 4))  # fmt: skip
    return [tile for tile, x, y in layouts if planar_winograd.suits(x, y)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(("image", "tiles"), [
    ((28, 28), [4]), ((27, 25), [4]), ((14, 14), [2, 4]), ((13, 13), [2, 4]), ((1, 1), [2, 4]), ((30, 24), [4]),
    ((9, 31), [4]), ((2, 60), [2, 4]), ((60, 1), [2, 4]),
])  # fmt: skip
def test_images_of_few_tiles(image: Size, tiles: List[int], workers: int, bias: bool) -> None:
    assert tiles_that_suit(9, image) == tiles
    inputs = [normal(1, 9, *image), normal(20, 9, 3, 3), *([normal(20)] if bias else [])]
    op = OperatorDef.of("ConvRelu", ["X", "W", "b"][: len(inputs)], ["Y"], kernel=3, pad=1)
    assert_options_agree((op, inputs, (1, 2)[: len(inputs) - 1]), workers)


@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (1, 6), (33, 7), (64, 12), (5, 64), (128, 130)])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_channels_and_filters(channels: int, filters: int, workers: int) -> None:
    inputs = [normal(1, channels, 14, 13), normal(filters, channels, 3, 3), normal(filters)]
    op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=3, pad=1)
    assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_addend(workers: int) -> None:
    inputs = [normal(1, 16, 14, 14), normal(20, 16, 3, 3), normal(20), normal(1, 20, 14, 14)]
    op = OperatorDef.of("FusedConv", ["X", "W", "b", "Z"], ["Y"], domain="armnet", kernel=3, pad=1, activation="Relu")
    assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.parametrize("activation", ["Relu", "onnx.HardSwish"])
@pytest.mark.parametrize("image", [(28, 28), (14, 14), (12, 26)])
def test_a_pool_behind_it(image: Size, activation: str) -> None:
    for workers in (1, 2):
        Problem((1, 9, *image), 20, activation=activation).check(workers)


def test_it_leaves_the_others_to_the_others(monkeypatch: Any) -> None:
    assert tiles_that_suit(9, (14, 14), batch=2) == []
    assert tiles_that_suit(9, (56, 56)) == []
    monkeypatch.setattr(planar_winograd, "LEAST_POSITIONS", 48)
    assert tiles_that_suit(9, (14, 14)) == [2]
    monkeypatch.setattr(planar_winograd, "LEAST_CHANNELS", 10)
    assert tiles_that_suit(9, (14, 14)) == []
    assert tiles_that_suit(10, (14, 14)) == [2]
    monkeypatch.setattr(gemm, "multiplies_small", lambda: False)
    assert tiles_that_suit(10, (14, 14)) == []
