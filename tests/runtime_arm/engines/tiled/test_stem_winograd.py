"""Stems of 7x7 and stride 2 by Winograd's filtering of four rows at a time, against the reference kernel."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled import stem_winograd, strips
from runtime_arm.engines.tiled.options import Option
from runtime_arm.netdef import OperatorDef

VARIANT = "f4x1_7x7"


@pytest.fixture(autouse=True)
def slow_at_small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a CPU whose BLAS packs small matrices, too."""
    monkeypatch.setattr(gemm, "multiplies_small", lambda: False)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def stem(
    image: Tuple[int, int], type: str = "Conv", bias: bool = True, **arguments: Any
) -> Tuple[OperatorDef, List[Any]]:
    inputs = [normal(2, 3, *image), normal(16, 3, 7, 7), *([normal(16)] if bias else [])]
    given = {"kernel": 7, "stride": 2, "pad": 3, **arguments}
    return OperatorDef.of(type, ["X", "W", "b"][: len(inputs)], ["Y"], **given), inputs


def by_winograd(op: OperatorDef, inputs: Sequence[Any]) -> List[Option]:
    constants = tuple(range(1, len(inputs)))
    return [option for option in tiled_options(op, inputs, constants) if option.kernel.engine == "WINOGRAD"]


def check(op: OperatorDef, inputs: Sequence[Any], workers: int = 1) -> None:
    expected = run_kernel(op, inputs)[0]
    (option,) = by_winograd(op, inputs)
    actual = run_option(op, inputs, option, tuple(range(1, len(inputs))), workers)
    terms = inputs[1][0].size
    magnitude = float(np.abs(inputs[0]).max() * np.abs(inputs[1]).max()) * terms**0.5
    assert_close(
        actual, expected, terms=terms, magnitude=magnitude, amplification=option.work.error, what=described(option)
    )


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("image", [(24, 31), (64, 64), (7, 8), (1, 8), (61, 32)])
def test_it_agrees(image: Tuple[int, int], bias: bool, workers: int) -> None:
    check(*stem(image, "ConvRelu", bias), workers)


@pytest.mark.parametrize("pads", [[0] * 4, [2, 2, 3, 3], [3, 3, 2, 2]])
def test_uneven_padding(pads: List[int]) -> None:
    check(*stem((40, 64), pad=0, pads=pads))


def test_strips_join_seamlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 20_000)
    for workers in (1, 2):
        check(*stem((50, 64)), workers)


@pytest.mark.parametrize("arguments", [{"kernel": 5, "pad": 2}, {"stride": 1}, {"dilation": 2}, {"engine": "IM2COL"}])
def test_other_stems_do_not_run_so(arguments: Any) -> None:
    op, inputs = stem((40, 40), **arguments)
    inputs[1] = inputs[1][:, :, : op.get_int("kernel", 7), : op.get_int("kernel", 7)]
    assert not by_winograd(op, inputs)


def test_the_variant_can_be_ruled_out_and_asked_for() -> None:
    assert not by_winograd(*stem((40, 40), engine=f"!WINOGRAD:{VARIANT}"))
    assert by_winograd(*stem((40, 40), engine=f"WINOGRAD:{VARIANT}"))


def test_it_is_for_a_blas_that_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    assert not by_winograd(*stem((40, 40)))


assert stem_winograd.WinogradStem.variants == (VARIANT,)
