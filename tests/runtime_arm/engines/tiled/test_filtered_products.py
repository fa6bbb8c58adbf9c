"""A depthwise convolution and the one of 1x1 behind it in one step, channels last, against their reference kernels."""

from __future__ import annotations

from typing import Any, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from device_tests.suite.kernels import specs_of
from runtime_arm.engines.conv import bias_shifts, gemm
from runtime_arm.engines.tiled import depthwise, filtered_products
from runtime_arm.registry.schema import lookup
from tests.runtime_arm.engines.tiled.test_separable_block_kernel import Problem

SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 13, 16])
ALIGNED, DENSE = 1, 0  # the border of Y


@pytest.fixture(autouse=True)
def slow_at_small_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a CPU whose BLAS packs small matrices, too."""
    monkeypatch.setattr(gemm, "multiplies_small", lambda: False)
    monkeypatch.setattr(bias_shifts, "MOST", 1e3)


def suits(problem: Problem) -> bool:
    specs = specs_of(problem.inputs, problem.constants)
    (y,) = lookup(problem.op).infer(problem.op, specs)
    return filtered_products.suits(problem.op, specs, y)


@settings(max_examples=60)
@given(
    channels=st.tuples(st.just(1), st.sampled_from([2, 16, 33, 48]), st.sampled_from([1, 8, 24])),
    image=st.tuples(SIZES, SIZES),
    stride=st.integers(1, 2),
    batch=st.integers(1, 2),
    adds=st.booleans(),
    size=st.sampled_from([3, 5]),
    activation=st.sampled_from(["Relu", "Clip", "onnx.Max"]),
    last=st.sampled_from(["Relu", "Clip", "onnx.HardSwish", ""]),
    workers=st.integers(1, 3),
)
def test_they_agree(workers: int, activation: str, last: str, **arguments: Any) -> None:
    problem = Problem(activations=("", activation, last), without="expand", **arguments)
    problem.check(workers)
    assert [option.outputs[0].border > 0 for option in problem.options()] == [DENSE, ALIGNED]


@pytest.mark.parametrize("image", [(23, 37), (24, 36)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("adds", [False, True])
def test_strips_join_seamlessly(
    stride: int, image: Tuple[int, int], adds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depthwise, "BLOCK", 4000)
    monkeypatch.setattr(depthwise, "usual_block_nbytes", lambda: 32_000)
    monkeypatch.setattr(depthwise, "RUN", 400)
    problem = Problem((1, 48, 16), image, stride, 2, ("", "Clip", ""), adds=adds, without="expand")
    assert problem.options()
    for workers in (1, 3):
        problem.check(workers)


@pytest.mark.parametrize(
    "arguments",
    [
        {"activations": ("", "", "")},
        {"activations": ("", "onnx.Swish", "")},
        {"bias": False},
        {"stride": 3},
        {"dilation": 2, "pad": 2, "stride": 2},
    ],
)
def test_unsupported_blocks_have_no_options(arguments: Any) -> None:
    given = {"channels": (1, 32, 8), "image": (9, 9), "activations": ("", "Clip", ""), "without": "expand"}
    problem = Problem(**{**given, **arguments})
    assert not problem.options()


def test_a_bias_that_outweighs_the_products_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem((1, 32, 8), (9, 9), activations=("", "Clip", ""), without="expand")
    assert suits(problem)
    problem.inputs[4][3] = 1e6
    assert not suits(problem)


def test_a_weight_that_outweighs_the_others_keeps_the_bias_where_it_is() -> None:
    problem = Problem((1, 32, 8), (9, 9), activations=("", "Clip", ""), without="expand")
    assert suits(problem)
    problem.inputs[5][2, 3] = 1e6
    assert not suits(problem)


def test_blobs_without_elements_cannot_lie_in_tiles() -> None:
    problem = Problem((1, 32, 8), (9, 9), activations=("", "Relu", ""), without="expand")
    assert suits(problem)
    problem.inputs[0] = problem.inputs[0][:0]
    assert not suits(problem)


@pytest.mark.parametrize("image", [(9, 9), (8, 12)])
def test_floors_of_a_bias_that_is_left_out_already(image: Tuple[int, int]) -> None:
    problem = Problem((1, 32, 8), image, activations=("", "onnx.Max", ""), bias=False, without="expand")
    assert suits(problem)
    problem.check(2)
    problem.constants = problem.constants[:-1]
    assert not problem.options()


def test_it_is_for_a_blas_that_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem((1, 32, 8), (9, 9), activations=("", "Clip", ""), without="expand")
    assert {option.kernel.engine for option in problem.options()} == {"DEPTHWISE"}
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    assert {option.kernel.engine for option in problem.options()} == {"TOEPLITZ"}
