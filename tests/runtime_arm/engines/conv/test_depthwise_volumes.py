"""DEPTHWISE in three dimensions against the reference on random shapes and at the edges of its blocks."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import pytest
from hypothesis import given, settings

from device_tests.suite.kernels import run_kernel, specs_of
from device_tests.suite.tolerance import assert_close
from runtime_arm.engines.conv import depthwise_volumes
from runtime_arm.engines.conv.depthwise_volumes import Volumes
from runtime_arm.engines.conv.operands import convolution_in
from runtime_arm.netdef import OperatorDef
from runtime_arm.registry.schema import lookup
from tests.runtime_arm.engines.conv.test_depthwise import WEIGHTS, Problem, assert_agrees, problem, problems
from tests.support.allocation import NUMPY_NBYTES, allocated_nbytes

VIDEO = (9, 11, 12)


@given(problems(3))
@settings(max_examples=200)
def test_agrees_with_the_reference(drawn: Problem) -> None:
    assert_agrees(*drawn)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("stride", [1, 2, 5])
@pytest.mark.parametrize("nbytes", [1, 4000, 20000])
def test_blocks_join_seamlessly(nbytes: int, stride: int, workers: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(depthwise_volumes, "BLOCK_NBYTES", nbytes)
    op, inputs = problem(VIDEO, 5, (3, 3, 3), multiplier=2, batch=2, pads=[1] * 6, strides=[1, stride, stride])
    x = specs_of(inputs, WEIGHTS)
    blocks = list(Volumes(convolution_in(op, x), 4).blocks())
    assert len(blocks) > 2
    assert nbytes > 1 or len({block.rows for block in blocks}) == -(-VIDEO[1] // stride)
    (expected,) = run_kernel(op, inputs)
    (actual,) = run_kernel(op, inputs, "DEPTHWISE", constants=WEIGHTS, workers=workers)
    (magnitude,) = run_kernel(op, [np.abs(x) for x in inputs])
    assert_close(actual, expected, terms=28, magnitude=magnitude)


@pytest.mark.parametrize("nbytes", [3000, 1 << 19])
@pytest.mark.parametrize("activation", ["Relu", "Swish", "PRelu"])
def test_ends_with_the_epilogue_of_fused_operators(activation: str, nbytes: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(depthwise_volumes, "BLOCK_NBYTES", nbytes)
    _, inputs = problem(VIDEO, 5, (3, 3, 3), multiplier=2)
    draw = np.random.default_rng(0)
    inputs.append(draw.standard_normal((1, 10, *VIDEO)).astype("f4"))
    inputs += [draw.uniform(0, 1, 10).astype("f4")] if activation == "PRelu" else []
    op = OperatorDef.of(
        "FusedConv",
        list("XWbAs")[: len(inputs)],
        ["Y"],
        domain="armnet",
        kernels=[3, 3, 3],
        pads=[1] * 6,
        group=5,
        activation=activation,
    )
    assert_agrees(op, inputs)


@pytest.mark.parametrize(
    ("kernel", "engine"), [((3, 3, 3), "DEPTHWISE"), ((3, 1, 1), "DEPTHWISE"), ((1, 1, 3), "IM2COL")]
)
def test_is_preferred_where_it_pays(kernel: Tuple[int, ...], engine: str) -> None:
    op, inputs = problem((8, 28, 28), 8, kernel, pads=[k // 2 for k in kernel] * 2)
    specs = specs_of(inputs, WEIGHTS)
    kernel_chosen, _ = lookup(op).choose(op, specs, lookup(op).infer(op, specs))
    assert kernel_chosen is not None
    assert kernel_chosen.engine == engine


def test_refuses_what_takes_too_much_memory() -> None:
    far = 1 << 20
    op, inputs = problem((1, 1, 1), 1, (1, 1, 1), pads=[far] * 6, strides=[far] * 3)
    specs = specs_of(inputs, WEIGHTS)
    assert lookup(op).infer(op, specs)[0].shape == (1, 1, 3, 3, 3)
    op, inputs = problem((1, 1, 1), 1, (3, 1, 1), pads=[far, 0, 0] * 2, strides=[far, 1, 1])
    specs = specs_of(inputs, WEIGHTS)
    reason = lookup(op).kernels["DEPTHWISE"].supports(op, specs, lookup(op).infer(op, specs))
    assert reason is not None
    assert "bytes of lines" in reason


@pytest.mark.parametrize("stride", [1, 2])
def test_a_run_allocates_nothing(stride: int) -> None:
    op, inputs = problem((8, 40, 41), 16, (3, 3, 3), batch=2, pads=[1] * 6, strides=[1, stride, stride])
    assert allocated_nbytes(op, inputs, "DEPTHWISE", constants=WEIGHTS) < NUMPY_NBYTES


@pytest.mark.parametrize("size", [14, 112, 600])
def test_scratch_is_bounded_for_any_size_of_image(size: int) -> None:
    op, inputs = problem((6, size, size), 2, (3, 3, 3), pads=[1] * 6)
    schema, specs = lookup(op), specs_of(inputs, WEIGHTS)
    scratch = schema.kernels["DEPTHWISE"].scratch(op, specs, schema.infer(op, specs))
    assert sum(spec.nbytes for spec in scratch) <= 1.5 * depthwise_volumes.BLOCK_NBYTES
