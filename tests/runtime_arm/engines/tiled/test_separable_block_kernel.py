"""Three convolutions in one step, strip by strip, against the reference kernels of the three."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tiled_kernels import described, run_option, tiled_options
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import gemm
from runtime_arm.engines.tiled.options import Option
from runtime_arm.engines.tiled.separable import block as separable_block
from runtime_arm.engines.tiled.separable import kernel as separable_block_kernel
from runtime_arm.engines.tiled.separable import options as separable_block_options
from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.operators.fused.separable_block import Parts, block_of
from runtime_arm.registry.schema import lookup

assert separable_block_options  # declares the options


@pytest.fixture(autouse=True)
def small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a CPU whose BLAS multiplies small matrices fast."""
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def fused(x: str, y: str, activation: str = "", more: Tuple[str, ...] = (), **arguments: Any) -> OperatorDef:
    if activation == "Clip":
        arguments.update(min=0.0, max=0.75)
    if activation:
        arguments["activation"] = activation
    return OperatorDef.of("FusedConv", [x, f"{y}_w", f"{y}_b", *more], [y], domain="armnet", **arguments)


class Problem:
    """A block of convolutions with its operands. channels: those of X, of the blobs in between, and of Y. without: the
    convolution that is missing. size: of the kernel that filters."""

    def __init__(
        self,
        channels: Tuple[int, int, int],
        image: Tuple[int, int],
        stride: int = 1,
        batch: int = 1,
        activations: Tuple[str, str, str] = ("Clip", "Relu", ""),
        adds: bool = False,
        bias: bool = True,
        expand: Optional[Dict[str, Any]] = None,
        without: str = "",
        size: int = 3,
        **filtering: Any,
    ):
        c, m, k = channels
        c = m if without == "expand" else c
        expand = expand or {"kernel": 1}
        operand = {"PRelu": normal(channels[2]), "onnx.Max": normal(channels[2], 1, 1)}.get(activations[2])
        floor = normal(m, 1, 1) if activations[1] == "onnx.Max" else None
        limit = () if floor is None else ("", "f_floor")
        more = (("a",) if adds else ("",) if operand is not None else ()) + ("s",) * (operand is not None)
        filtering = {"kernel": size, "stride": stride, "pad": size // 2, "group": m, **filtering}
        parts = Parts(
            None if without == "expand" else fused("x", "e", activations[0], **expand),
            fused("x" if without == "expand" else "e", "f", activations[1], limit, **filtering),
            None if without == "project" else fused("f", "y", activations[2], more, kernel=1),
        )
        self.op = block_of(parts)
        biases = [normal(n) if bias else None for n in (m, m, k)]
        w = normal(m, c, expand["kernel"], expand["kernel"]), normal(m, 1, size, size), normal(k, m, 1, 1)
        operands = [value if part is not None else None for part, *pair in zip(parts, w, biases) for value in pair]
        self.inputs: List[Any] = [normal(batch, c, *image), *operands, None, operand, floor]
        self.constants = tuple(i for i in range(1, 10) if self.inputs[i] is not None)
        if adds:
            specs = specs_of(self.inputs)
            self.inputs[7] = normal(*lookup(self.op).infer(self.op, specs)[0].shape)

    def options(self) -> List[Option]:
        return tiled_options(self.op, self.inputs, self.constants)

    def check(self, workers: int = 1) -> None:
        """AssertionError unless all options agree with the reference."""
        expected = run_kernel(self.op, self.inputs)[0]
        weights = [value for value in self.inputs[1:7:2] if value is not None]
        terms = int(np.prod([value[0].size for value in weights]))
        magnitude = float(np.prod([np.abs(operand).max() for operand in (self.inputs[0], *weights)])) * terms**0.5
        options = self.options()
        assert options
        for option in options:
            for slices in (False, True):
                actual = run_option(self.op, self.inputs, option, self.constants, workers, slices)
                assert_close(actual, expected, terms=terms, magnitude=magnitude, what=described(option))


sizes = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16])
channels = st.tuples(st.sampled_from([1, 3, 8, 24]), st.sampled_from([2, 16, 33, 48]), st.sampled_from([1, 8, 24]))


@settings(max_examples=40)
@given(
    channels=channels,
    image=st.tuples(sizes, sizes),
    stride=st.integers(1, 2),
    batch=st.integers(1, 2),
    adds=st.booleans(),
    bias=st.booleans(),
    size=st.sampled_from([3, 5]),
    workers=st.integers(1, 2),
)
def test_pointwise_first(workers: int, **arguments: Any) -> None:
    Problem(**arguments).check(workers)


@settings(max_examples=25)
@given(
    channels=channels,
    image=st.tuples(sizes, sizes),
    stride=st.integers(1, 2),
    batch=st.integers(1, 2),
    bias=st.booleans(),
    size=st.sampled_from([3, 5]),
    without=st.sampled_from(["expand", "project"]),
    activation=st.sampled_from(["onnx.Swish", "onnx.HardSwish", "Relu", "Clip", "onnx.Max", ""]),
    workers=st.integers(1, 2),
)
def test_one_of_the_outer_convolutions_is_missing(workers: int, activation: str, **arguments: Any) -> None:
    first = "" if activation == "onnx.Max" else activation
    Problem(activations=(first, activation, ""), **arguments).check(workers)


@settings(max_examples=15)
@given(
    image=st.tuples(sizes, sizes),
    stride=st.integers(1, 2),
    size=st.sampled_from([3, 5]),
    activation=st.sampled_from(["onnx.Swish", "Relu", "Sigmoid", "onnx.Max", ""]),
)
def test_a_depthwise_convolution_alone_between_planes(
    image: Tuple[int, int], stride: int, size: int, activation: str
) -> None:
    arguments = {"kernel": size, "stride": stride, "pad": size // 2, "group": 24}
    inputs = [normal(2, 24, *image), normal(24, 1, size, size), normal(24)]
    more = ("", "y_floor") if activation == "onnx.Max" else ()
    inputs += [None, normal(24, 1, 1)] if more else []
    op, constants = fused("x", "y", activation, more, **arguments), (1, 2, 4)[: 2 + len(more) // 2]
    expected = run_kernel(op, inputs)[0]
    options = [option for option in tiled_options(op, inputs, constants) if option.kernel.engine == "TOEPLITZ"]
    assert options
    for option in options:
        actual = run_option(op, inputs, option, constants, workers=2)
        assert_close(actual, expected, terms=size**2, magnitude=size * 10.0, what=described(option))


@settings(max_examples=40)
@given(
    image=st.tuples(sizes, sizes),
    stride=st.integers(1, 2),
    batch=st.integers(1, 2),
    kernel=st.sampled_from([2, 3, 5]),
    step=st.integers(1, 2),
    pad=st.integers(0, 2),
)
def test_a_kernel_of_several_pixels_first(
    image: Tuple[int, int], stride: int, batch: int, kernel: int, step: int, pad: int
) -> None:
    height, width = (max(size, kernel) for size in image)
    problem = Problem(
        (3, 16, 8),
        (height, width),
        stride,
        batch,
        expand={"kernel": kernel, "stride": step, "pad": min(pad, kernel - 1)},
    )
    problem.check()


@pytest.mark.parametrize("pads", [(0, 0, 1, 1), (0, 1, 1, 0), (1, 0, 0, 1), (0, 0, 0, 0), (1, 1, 0, 0), (0, 0, 5, 4)])
@pytest.mark.parametrize("image", [(8, 8), (9, 11), (3, 4)])
def test_uneven_padding(image: Tuple[int, int], pads: Tuple[int, ...]) -> None:
    Problem((4, 16, 8), image, 2, 2, pad=0, pads=list(pads)).check()


@pytest.mark.parametrize("activation", ["Relu", "Clip", "onnx.HardSwish", "PRelu", "onnx.Max", ""])
def test_the_last_convolution_may_have_any_activation(activation: str) -> None:
    Problem((8, 32, 16), (9, 10), activations=("Relu", "", activation), adds=activation != "PRelu").check(2)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("without", ["", "expand", "project"])
def test_what_is_filtered_may_have_one_floor_for_each_channel(without: str, bias: bool) -> None:
    Problem((8, 48, 16), (9, 10), activations=("Relu", "onnx.Max", "Relu"), bias=bias, without=without).check(2)


def test_floors_that_are_not_constant_have_no_options() -> None:
    problem = Problem((8, 48, 16), (9, 10), activations=("Relu", "onnx.Max", ""))
    assert problem.options()
    problem.constants = problem.constants[:-1]
    assert not problem.options()


@pytest.mark.parametrize("image", [(23, 37), (24, 36)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [3, 5])
def test_strips_and_groups_join_seamlessly(
    stride: int,
    size: int,
    image: Tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(separable_block, "ENOUGH_ROWS", 2)
    monkeypatch.setattr(separable_block, "ENOUGH_POSITIONS", 1)
    monkeypatch.setattr(separable_block, "usual_block_nbytes", lambda: 70_000)
    monkeypatch.setattr(separable_block_kernel, "SMALL_PRODUCT", 20_000)
    for workers in (1, 3):
        Problem((8, 48, 16), image, stride, 2, adds=True, size=size).check(workers)
        Problem((8, 48, 16), image, stride, 2, size=size, without="expand").check(workers)
        Problem((8, 48, 16), image, stride, 2, size=size, without="project").check(workers)
        for kernel, step in ((3, 1), (3, 2), (5, 1), (5, 2)):
            expand = {"kernel": kernel, "stride": step, "pad": kernel // 2}
            Problem((3, 48, 16), image, stride, 2, expand=expand, size=size).check(workers)


@pytest.mark.parametrize(
    "arguments",
    [
        {"dilation": 2, "pad": 2},
        {"pad": 0},
        {"stride": 3},
        {"activations": ("Sigmoid", "Relu", "")},
        {"size": 7},
        {"expand": {"kernel": 3, "pad": 1}},
        {"channels": (16, 16, 8), "group": 1},
    ],
)
def test_unsupported_blocks_have_no_options(arguments: Dict[str, Any]) -> None:
    problem = Problem(**{"channels": (16, 32, 8), "image": (8, 8), **arguments})
    if arguments.get("group") == 1:
        problem.inputs[3] = normal(16, 16, 3, 3)
    assert problem.options() == []


def test_blocks_whose_limits_change_zero_have_no_options() -> None:
    problem = Problem((16, 32, 8), (8, 8))
    layers = problem.op.get_net("layers")
    first = OperatorDef.of(
        "FusedConv",
        layers.op[0].input,
        layers.op[0].output,
        domain="armnet",
        kernel=1,
        activation="Clip",
        min=0.5,
        max=6.0,
    )
    net = layers.replace(op=(first, *layers.op[1:]))
    op = OperatorDef.of("SeparableBlock", problem.op.input, problem.op.output, domain="armnet", layers=net)
    assert tiled_options(op, problem.inputs, problem.constants) == []


def test_images_that_are_too_wide_have_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separable_block, "usual_block_nbytes", lambda: 4096)
    assert Problem((16, 32, 8), (32, 64)).options() == []


def scratch_nbytes(height: int) -> List[int]:
    problem = Problem((16, 96, 24), (height, 400))
    specs = specs_of(problem.inputs, problem.constants)
    outputs = lookup(problem.op).infer(problem.op, specs)
    return [
        sum(spec.nbytes for spec in option.kernel.scratch(problem.op, specs, outputs)) for option in problem.options()
    ]


def test_scratch_does_not_grow_with_the_image() -> None:
    low, high = scratch_nbytes(300), scratch_nbytes(600)
    assert low
    assert high == low


@pytest.mark.parametrize("net", [NetDef(), NetDef(op=(fused("x", "expanded", kernel=1),) * 3)])
def test_layers_must_form_a_block(net: NetDef) -> None:
    inputs = Problem((4, 8, 4), (5, 5)).inputs
    op = OperatorDef.of("SeparableBlock", list("xabcdefghi"), ["y"], domain="armnet", layers=net)
    with pytest.raises(ArgumentError, match="must be"):
        run_kernel(op, inputs)
