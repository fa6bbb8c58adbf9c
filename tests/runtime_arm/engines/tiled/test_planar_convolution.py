"""Convolutions that compute with the channels first, against the reference, with one worker and with several."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled.planar import products as planar
from runtime_arm.engines.tiled.planar.columns import PlanarColumns
from runtime_arm.engines.tiled.planar.pairs import Pairs
from runtime_arm.engines.tiled.planar.winograd import PlanarWinograd
from runtime_arm.netdef import OperatorDef
from runtime_arm.operators.conv.convolution import convolution_of
from runtime_arm.registry.layouts import Tiles
from runtime_arm.registry.specs import TensorSpec
from tests.runtime_arm.engines.tiled.test_options import assert_options_agree, normal
from tests.runtime_arm.engines.tiled.test_pooled_convolution_options import Problem

Size = Tuple[int, int]


@pytest.fixture
def everywhere(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(planar, "suits", lambda positions, *others: positions <= planar.LANES)


def tiles_that_suit(channels: int, image: Size, filters: int = 8, batch: int = 1) -> List[Size]:
    suiting = []
    for tile, columns in ((2, 2), (2, 4), (4, 4)):
        x, y = (Tiles.of(TensorSpec((batch, depth, *image), "float32"), tile, 1) for depth in (channels, filters))
        if PlanarWinograd(x, y, columns).suits():
            suiting.append((tile, columns))
    return suiting


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("image", "tiles"),
    [
        ((28, 28), [(4, 4)]),
        ((27, 25), [(4, 4)]),
        ((14, 14), [(2, 2), (2, 4), (4, 4)]),
        ((13, 13), [(2, 2), (4, 4)]),
        ((7, 7), [(2, 2), (2, 4), (4, 4)]),
        ((1, 1), [(2, 2), (4, 4)]),
        ((30, 24), [(4, 4)]),
        ((30, 14), [(2, 4), (4, 4)]),
        ((9, 31), [(2, 4), (4, 4)]),
        ((2, 60), [(2, 2), (4, 4)]),
        ((60, 1), [(2, 2), (4, 4)]),
    ],
)
def test_images_of_few_tiles(image: Size, tiles: List[Size], workers: int, bias: bool) -> None:
    assert tiles_that_suit(9, image) == tiles
    inputs = [normal(1, 9, *image), normal(20, 9, 3, 3), *([normal(20)] if bias else [])]
    op = OperatorDef.of("ConvRelu", ["X", "W", "b"][: len(inputs)], ["Y"], kernel=3, pad=1)
    assert_options_agree((op, inputs, (1, 2)[: len(inputs) - 1]), workers)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(("channels", "filters"), [(1, 1), (1, 6), (33, 7), (64, 12), (5, 64), (128, 130)])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_channels_and_filters(channels: int, filters: int, workers: int) -> None:
    inputs = [normal(1, channels, 14, 13), normal(filters, channels, 3, 3), normal(filters)]
    op = OperatorDef.of("Conv", ["X", "W", "b"], ["Y"], kernel=3, pad=1)
    assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [1, 2])
def test_an_addend(workers: int) -> None:
    inputs = [normal(1, 16, 14, 14), normal(20, 16, 3, 3), normal(20), normal(1, 20, 14, 14)]
    op = OperatorDef.of("FusedConv", ["X", "W", "b", "Z"], ["Y"], domain="armnet", kernel=3, pad=1, activation="Relu")
    assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("activation", ["Relu", "onnx.HardSwish"])
@pytest.mark.parametrize("image", [(28, 28), (14, 14), (12, 26)])
def test_a_pool_after_a_convolution(image: Size, activation: str) -> None:
    for workers in (1, 2):
        Problem((1, 9, *image), 20, activation=activation).check(workers)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "stride", "image"),
    [
        (9, 20, 1, 1, (7, 7)),
        (5, 6, 1, 2, (14, 13)),
        (12, 31, 3, 2, (14, 14)),
        (9, 1, 3, 2, (15, 9)),
        (9, 7, 5, 1, (6, 7)),
        (1, 13, 2, 1, (8, 8)),
        (64, 12, 3, 1, (1, 1)),
        (3000, 8, 1, 1, (7, 7)),
        (300, 8, 3, 1, (5, 6)),
    ],
)
def test_other_kernels(channels: int, filters: int, kernel: int, stride: int, image: Size, workers: int) -> None:
    inputs = [normal(1, channels, *image), normal(filters, channels, kernel, kernel), normal(filters)]
    op = OperatorDef.of("ConvRelu", ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2)
    assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("channels", "filters", "pad", "image"),
    [
        (9, 20, 1, (14, 14)),
        (5, 6, 1, (13, 14)),
        (12, 31, 0, (15, 15)),
        (1, 1, 1, (15, 9)),
        (3, 13, 2, (8, 7)),
        (64, 12, 1, (1, 1)),
        (300, 8, 1, (5, 6)),
        (16, 12, 1, (40, 3)),
        (16, 12, 1, (3, 40)),
        (868, 7, 1, (14, 14)),
    ],
)
def test_strided_convolutions_by_pairs_of_columns(
    channels: int, filters: int, pad: int, image: Size, workers: int, monkeypatch: Any
) -> None:
    bound: List[Any] = []
    bind = Pairs.bind
    monkeypatch.setattr(Pairs, "bind", lambda self, call: bound.append(call) or bind(self, call))
    inputs = [normal(1, channels, *image), normal(filters, channels, 3, 3), normal(filters), None]
    for op in (
        OperatorDef.of("ConvRelu", ["X", "W", "b"], ["Y"], kernel=3, stride=2, pad=pad),
        OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, stride=2, pad=pad),
    ):
        assert_options_agree((op, inputs[: len(op.input)], (1, 2)[: len(op.input) - 1]), workers)
    assert bound


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_strided_convolution_with_an_addend(workers: int) -> None:
    inputs = [normal(1, 16, 14, 14), normal(20, 16, 3, 3), normal(20), normal(1, 20, 7, 7)]
    op = OperatorDef.of("FusedConv", ["X", "W", "b", "Z"], ["Y"], domain="armnet", kernel=3, stride=2, pad=1)
    assert_options_agree((op, inputs, (1, 2)), workers)


@pytest.mark.parametrize(
    ("channels", "image", "pad", "suits"),
    [
        (512, (14, 14), 1, True),
        (256, (14, 14), 1, True),
        (128, (16, 16), 1, True),
        (24, (14, 14), 1, False),
        (512, (28, 28), 1, False),
        (900, (14, 14), 1, False),
        (512, (15, 15), 0, True),
    ],
)
def test_where_pairs_of_columns_pay(channels: int, image: Size, pad: int, suits: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=3, stride=2, pad=pad)
    x, w = TensorSpec((1, channels, *image), "float32"), TensorSpec((512, channels, 3, 3), "float32")
    convolution = convolution_of(op, x, w)
    y = Tiles.of(TensorSpec(convolution.output_shape, "float32"), 1, 1)
    assert Pairs(convolution, Tiles.of(x, 1, 1), y).suits() == suits


@pytest.mark.usefixtures("everywhere")
def test_a_pool_after_a_pointwise_convolution() -> None:
    for workers in (1, 2):
        Problem((1, 9, 8, 8), 20, 1, activation="Relu").check(workers)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("workers", [1, 2])
def test_hints_of_small_blocks_change_no_result(workers: int) -> None:
    inputs = [normal(1, 1000, 7, 7), normal(40, 1000, 1, 1)]
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=1, engine="block=65536")
    assert_options_agree((op, inputs, (1,)), workers)


def test_where_channels_first_pays(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(gemm, "halves_vectors", lambda: False)
    assert tiles_that_suit(512, (28, 28), 512) == [(4, 4)]
    assert tiles_that_suit(512, (14, 14), 512) == [(2, 2), (2, 4), (4, 4)]
    assert tiles_that_suit(512, (7, 7), 512) == [(2, 2), (2, 4), (4, 4)]
    assert tiles_that_suit(512, (14, 14), 512, batch=2) == []
    assert tiles_that_suit(512, (56, 56), 512) == []
    assert tiles_that_suit(64, (28, 28), 512) == []
    assert tiles_that_suit(512, (14, 14), 8) == []
    assert planar.suits(49, 1024, 2048)
    assert not planar.suits(49, 1024, 32)
    monkeypatch.setattr(gemm, "halves_vectors", lambda: True)
    assert not planar.suits(49, 1024, 2048)
    assert planar.suits(32, 1024, 2048)


@pytest.mark.parametrize("small", [True, False])
def test_deep_layers_of_few_pixels_are_planar_where_small_products_are_fast(small: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    monkeypatch.setattr(gemm, "halves_vectors", lambda: False)
    bound: List[Any] = []
    bind = PlanarColumns.bind
    monkeypatch.setattr(PlanarColumns, "bind", lambda self, call: bound.append(call) or bind(self, call))
    inputs = [normal(1, 512, 7, 7), normal(512, 512, 1, 1)]
    op = OperatorDef.of("Conv", ["X", "W"], ["Y"], kernel=1)
    assert_options_agree((op, inputs, (1,)))
    assert bool(bound) == small
