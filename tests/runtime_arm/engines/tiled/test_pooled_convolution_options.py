"""A convolution and the max pool behind it in one step, against the reference kernels of the two."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled import pooled_convolution_options, strips, winograd
from runtime_arm.engines.tiled.options import Option
from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.fused.pooled_convolution import pooled_conv_of
from runtime_arm.registry.schema import lookup

assert pooled_convolution_options  # declares the options


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


class Problem:
    """A convolution of an image (N, C, H, W), and a pool of size ``window`` and stride ``step``."""

    def __init__(
        self,
        image: Tuple[int, int, int, int],
        filters: int,
        kernel: int = 3,
        window: int = 2,
        step: int = 2,
        bias: bool = True,
        activation: str = "Relu",
        **arguments: Any,
    ):
        pool = {key: arguments.pop(key) for key in ("pads", "legacy_pad", "order") if key in arguments}
        arguments = {"kernel": kernel, "pad": kernel // 2, **arguments}
        if activation == "Clip":
            arguments.update(min=-0.25, max=0.75)
        names = ["x", "w", "b" if bias else "", *{"PRelu": ["", "s"], "onnx.Max": ["", "f"]}.get(activation, [])]
        first = OperatorDef.of(
            "FusedConv",
            names if any(names[2:]) else ["x", "w"],
            ["y"],
            domain="armnet",
            **arguments,
            **({"activation": activation} if activation else {}),
        )
        self.op = pooled_conv_of(first, OperatorDef.of("MaxPool", ["y"], ["p"], kernel=window, stride=step, **pool))
        given = {
            "x": normal(*image),
            "w": normal(filters, image[1], kernel, kernel),
            "b": normal(filters),
            "s": normal(filters),
            "f": normal(filters, 1, 1),
            "": None,
        }
        self.inputs: List[Any] = [given[name] for name in first.input]
        self.constants = tuple(range(1, len(self.inputs)))

    def options(self) -> List[Option]:
        return tiled_options(self.op, self.inputs, self.constants)

    def check(self, workers: int = 1, least: int = 1) -> List[Option]:
        """AssertionError unless all options agree with the reference."""
        expected = run_kernel(self.op, self.inputs)[0]
        x, w = self.inputs[:2]
        terms = w[0].size + 1
        magnitude = terms * float(np.sqrt((w**2).mean() * (x**2).mean())) + 3
        options = self.options()
        assert len(options) >= least
        for option in options:
            for slices in (False, True):
                actual = run_option(self.op, self.inputs, option, self.constants, workers, slices)
                assert_close(
                    actual,
                    expected,
                    terms=terms,
                    magnitude=magnitude,
                    amplification=option.work.error,
                    what=described(option),
                )
        return options


sizes = st.sampled_from([4, 5, 6, 7, 8, 9, 13, 16])


@given(
    batch=st.integers(1, 2),
    channels=st.sampled_from([1, 3, 9, 32]),
    height=sizes,
    width=sizes,
    filters=st.sampled_from([1, 5, 64]),
    kernel=st.sampled_from([1, 2, 3, 5]),
    stride=st.sampled_from([1, 1, 2]),
    pool=st.sampled_from([(2, 2), (2, 2), (3, 3), (2, 3), (1, 2)]),
    bias=st.booleans(),
    activation=st.sampled_from(["", "Relu", "Clip", "onnx.HardSwish", "PRelu", "onnx.Max"]),
    workers=st.integers(1, 3),
)
@settings(max_examples=120)
def test_equals_the_convolution_followed_by_the_pool(
    batch: int,
    channels: int,
    height: int,
    width: int,
    filters: int,
    kernel: int,
    stride: int,
    pool: Tuple[int, int],
    bias: bool,
    activation: str,
    workers: int,
) -> None:
    image = max(height, stride * (pool[0] + 1) + kernel), max(width, stride * (pool[0] + 1) + kernel)
    problem = Problem((batch, channels, *image), filters, kernel, *pool, bias, activation, stride=stride)
    problem.check(workers)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("image", [(24, 31), (10, 67)])
@pytest.mark.parametrize(
    ("channels", "filters", "kernel", "activation"),
    [
        (5, 7, 3, "Relu"),
        (9, 64, 3, "onnx.HardSwish"),
        (3, 8, 5, "Clip"),
        (16, 16, 1, ""),
        (12, 8, 5, "PRelu"),
        (24, 64, 1, "onnx.Max"),
    ],
)
def test_strips_join_seamlessly(
    channels: int, filters: int, kernel: int, activation: str, image: Tuple[int, int], small: bool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 20_000)
    monkeypatch.setattr(winograd, "LEAST_TILES", 1)
    for workers in (1, 2):
        Problem((2, channels, *image), filters, kernel, activation=activation).check(workers)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_small_blocks_of_many_channels(kernel: int, small: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 1 << 16)
    Problem((1, 64, 40, 40), 64, kernel).check(2)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("activation", ["Relu", "PRelu", "onnx.Max"])
@pytest.mark.parametrize(("kernel", "filters"), [(3, 128), (1, 192), (5, 64)])
def test_workers_split_filters(kernel: int, filters: int, activation: str, small: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    for workers in (2, 3):
        Problem((1, 200, 7, 7), filters, kernel, activation=activation).check(workers, least=2)


def test_a_tiny_convolution_has_no_other_option_than_its_small_columns() -> None:
    (option,) = Problem((1, 16, 14, 14), 16).options()
    assert (option.kernel.engine, option.inputs[0], option.outputs) == ("IM2COL", None, (None,))


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("", {"WINOGRAD", "IM2COL"}),
        ("WINOGRAD", {"WINOGRAD"}),
        ("!WINOGRAD", {"IM2COL"}),
        ("FFT", set()),
        ("WINOGRAD:f2x2_3x3", {"WINOGRAD"}),
        ("!WINOGRAD,!IM2COL", set()),
    ],
)
def test_uses_the_engines_that_the_convolution_asks_for(engine: str, expected: Any) -> None:
    problem = Problem((1, 16, 28, 28), 16)
    first, pool = problem.op.get_net("layers").op
    asking = OperatorDef("FusedConv", first.input, first.output, first.arg, domain="armnet", engine=engine)
    problem.op = pooled_conv_of(asking, pool)
    assert {option.kernel.engine for option in problem.options()} == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"window": 3},
        {"pads": [1, 1, 1, 1]},
        {"window": 3, "step": 1},
        {"group": 2},
        {"order": "NHWC"},
        {"legacy_pad": 3, "image": (1, 16, 13, 14)},
    ],
)
def test_unsupported_arguments_have_no_options(arguments: Dict[str, Any]) -> None:
    problem = Problem(**{"image": (1, 16, 14, 14), "filters": 16, **arguments})
    if "group" in arguments:
        problem.inputs[1] = normal(16, 8, 3, 3)
    assert problem.options() == []


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_scratch_does_not_grow_with_the_image(kernel: int) -> None:
    for channels in (3, 64):
        problem = Problem((1, channels, 400, 300), 64, kernel)
        specs = specs_of(problem.inputs, problem.constants)
        outputs = lookup(problem.op).infer(problem.op, specs)
        for option in problem.options():
            assert sum(spec.nbytes for spec in option.kernel.scratch(problem.op, specs, outputs)) < 4 << 20


def test_the_hints_are_those_of_the_convolution(monkeypatch: Any) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    monkeypatch.setattr(strips, "usual_block_nbytes", lambda: 1 << 20)
    problem = Problem((1, 64, 56, 56), 192, 1)
    option = problem.options()[0]
    assert option.kernel.hints(problem.op) == ["block=524288", "block=2097152", "panel=0", "panel=32"]


CONV, RELU = OperatorDef.of("Conv", ["x", "w"], ["convolved"], kernel=3), OperatorDef.of("Relu", ["x"], ["convolved"])
AVERAGE = OperatorDef.of("AveragePool", ["convolved"], ["y"], kernel=2, stride=2)


@pytest.mark.parametrize(
    "net",
    [
        NetDef(),
        NetDef(op=(RELU, RELU)),
        NetDef(op=(CONV, AVERAGE)),
        NetDef(op=(RELU, AVERAGE.replace(type="MaxPool"))),
    ],
)
def test_layers_must_be_a_convolution_and_a_max_pool(net: NetDef) -> None:
    op = OperatorDef.of("PooledConv", ["x", "w"], ["y"], domain="armnet", layers=net)
    with pytest.raises(ArgumentError, match="must be"):
        run_kernel(op, [normal(1, 4, 5, 5), normal(4, 4, 3, 3)])
