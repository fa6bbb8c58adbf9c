"""Winograd for machines that multiply and add number by number, held against the reference kernels."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import axpy, gemm
from runtime_arm.engines.conv.winograd_transforms import transforms
from runtime_arm.engines.tiled.option import Option
from runtime_arm.engines.tiled.summed.transforms import from_frequencies, into_frequencies
from runtime_arm.machine import blas
from runtime_arm.netdef import OperatorDef
from runtime_arm.records import NamedTuple

pytestmark = pytest.mark.skipif(blas.routine("saxpy") is None, reason="NumPy's BLAS is none that can be asked")


class Case(NamedTuple):
    op: OperatorDef
    operands: List[Any]


@pytest.fixture
def number_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: False)
    monkeypatch.setattr(gemm, "multiplies_scalars", lambda: True)
    monkeypatch.setattr(axpy, "pays", lambda: True)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _convolution(type: str, image: List[int], kernel: int, stride: int, channels: int, batch: int = 1) -> Case:
    op = OperatorDef.of(type, ["X", "W", "b"], ["Y"], kernel=kernel, stride=stride, pad=kernel // 2)
    return Case(op, [_normal(batch, channels, *image), _normal(20, channels, kernel, kernel), _normal(20)])


def _winograd(case: Case) -> List[Option]:
    return [one for one in tiled_options(*case, (1, 2)) if one.kernel.engine == "WINOGRAD"]


def _assert_options_agree(case: Case) -> None:
    expected = run_kernel(*case)[0]
    terms = case.operands[1][0].size
    for option in _winograd(case):
        for workers, slices in ((1, False), (2, False), (1, True)):
            assert_close(
                run_option(*case, option, (1, 2), workers=workers, slices=slices),
                expected,
                terms=terms,
                magnitude=4.0 * terms**0.5,
                amplification=option.work.error,
                what=described(option),
            )


@pytest.mark.usefixtures("number_by_number")
@pytest.mark.parametrize("type", ["Conv", "ConvRelu"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("image", [[56, 56], [12, 28], [30, 28], [9, 9], [17, 40], [13, 13], [7, 7], [16, 300]])
def test_convolutions_of_3x3(image: List[int], batch: int, type: str) -> None:
    case = _convolution(type, image, 3, 1, 8, batch)
    assert {one.kernel.variants for one in _winograd(case)} == {("f2x2_3x3",), ("f4x4_3x3",)}
    _assert_options_agree(case)


@pytest.mark.usefixtures("number_by_number")
@pytest.mark.parametrize("type", ["Conv", "ConvRelu"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("image", [[64, 64], [17, 40]])
def test_stems_of_7x7(image: List[int], channels: int, batch: int, type: str) -> None:
    case = _convolution(type, image, 7, 2, channels, batch)
    assert [one.kernel.variants for one in _winograd(case)] == [("f4x1_7x7",)]
    _assert_options_agree(case)


@pytest.mark.parametrize("tile", [2, 4])
def test_sums_transform_as_the_matrices_do(tile: int) -> None:
    matrices = transforms(tile)
    taps = _normal(tile + 2, 70)
    frequencies, results = np.full_like(taps, np.nan), np.full((tile, 70), np.nan, np.float32)
    for step in into_frequencies(taps, frequencies):
        step()
    given = np.abs(matrices.input) @ np.abs(taps)
    assert_close(frequencies, (matrices.input @ taps).astype(np.float32), terms=tile + 2, magnitude=given)
    expected, sums = matrices.output @ frequencies, np.abs(matrices.output) @ np.abs(frequencies)
    for step in from_frequencies(frequencies, results):
        step()
    assert_close(results, expected.astype(np.float32), terms=tile + 2, magnitude=sums)
