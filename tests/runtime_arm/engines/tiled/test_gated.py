"""A gated convolution of 1x1, by every option, against the reference kernels of its two layers."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
import pytest

from device_tests.suite.kernels import run_kernel
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled import gated
from runtime_arm.engines.tiled.options import Option
from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.fused.gated_convolution import gated_conv_of
from runtime_arm.registry.layouts import Planes

assert gated  # declares the options


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


class Problem:
    """A gated convolution with its operands. channels: of X and of Y; x: the place of X in the product."""

    def __init__(
        self,
        channels: Tuple[int, int],
        image: Tuple[int, int],
        activation: str = "",
        adds: bool = False,
        x: int = 0,
        batch: int = 1,
    ):
        c, m = channels
        factors = ["x", "g"] if x == 0 else ["g", "x"]
        more = ["a"] if adds else []
        activations = {"activation": activation} if activation else {}
        convolution = OperatorDef.of(
            "FusedConv", ["p", "w", "b", *more], ["y"], domain="armnet", kernel=1, **activations
        )
        self.op = gated_conv_of(OperatorDef.of("Mul", factors, ["p"], domain="onnx"), convolution, x)
        self.inputs: List[Any] = [normal(batch, c, *image), normal(batch, c, 1, 1), normal(m, c, 1, 1), normal(m)]
        if adds:
            self.inputs.append(normal(batch, m, *image))

    def options(self) -> List[Option]:
        return tiled_options(self.op, self.inputs, (2, 3))

    def check(self, workers: int = 1) -> List[Option]:
        """AssertionError unless all options agree with the reference."""
        expected = run_kernel(self.op, self.inputs)[0]
        terms = self.inputs[0].shape[1]
        magnitude = float(np.prod([np.abs(value).max() for value in self.inputs[:3]])) * terms**0.5 + 3
        options = self.options()
        assert options
        for option in options:
            for slices in (False, True):
                actual = run_option(self.op, self.inputs, option, (2, 3), workers, slices)
                assert_close(actual, expected, terms=terms, magnitude=magnitude, what=described(option))
        return options


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("image", [(1, 1), (14, 15), (40, 31)])
@pytest.mark.parametrize("channels", [(3, 1), (24, 48), (33, 7)])
def test_options_agree_with_the_reference(
    channels: Tuple[int, int], image: Tuple[int, int], workers: int, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: fast)
    options = Problem(channels, image, adds=True).check(workers)
    assert any(isinstance(option.inputs[0], Planes) for option in options) == fast


@pytest.mark.parametrize("activation", ["Relu", "onnx.HardSwish", "Sigmoid"])
@pytest.mark.parametrize("x", [0, 1])
def test_activations_and_either_order_of_factors(activation: str, x: int) -> None:
    Problem((24, 32), (9, 10), activation, x=x).check()


def test_several_images_have_no_options() -> None:
    assert Problem((24, 32), (9, 10), batch=2).options() == []


def test_layers_must_be_a_product_and_a_convolution() -> None:
    layers = (OperatorDef.of("Relu", ["x"], ["product"]), OperatorDef.of("Relu", ["product"], ["y"]))
    op = OperatorDef.of("GatedConv", ["x", "g", "w"], ["y"], domain="armnet", layers=NetDef(op=layers))
    with pytest.raises(ArgumentError, match="must be Mul and a convolution"):
        run_kernel(op, Problem((4, 4), (3, 3)).inputs[:3])
