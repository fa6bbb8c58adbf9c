"""Open sizes stay open: an example of a shape is only for measuring, and no rewrite relies on it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimize import optimize
from optimize.rewriting.program import Program
from optimize.rewriting.report import operator_counts
from optimize.rewriting.shapes import first_taken, sample_specs
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec
from tests.optimize import kinds
from tests.optimize.nets import assert_same_numbers, numbers, pair_of, pair_of_net
from tests.support.random_nets import DATA_DEPENDENT, KINDS, RandomNet, random_nets

RANDOM = np.random.default_rng(11)
ROUNDING = {"terms": 100, "layers": 6}  # folding rounds differently
AGNOSTIC = [
    *DATA_DEPENDENT,
    kinds.activated_parts,
    kinds.activating,
    kinds.clamping,
    kinds.copying,
    kinds.gating,
    kinds.of_any_width,
    kinds.open_viewing,
    kinds.residual,
    kinds.scaling,
    kinds.squeezing,
    kinds.stacking,
    kinds.transposing,
]


def test_samples_of_volumes_are_small() -> None:
    """A net may make a hundred channels of every voxel."""
    volume = TensorInfo("x", ("n", 2, "d", "h", "w"), "float32")
    assert sample_specs([volume])["x"].shape == (1, 2, 64, 96, 128)
    picture = TensorInfo("x", ("n", 2, 3, "h", "w"), "float32")
    assert sample_specs([picture])["x"].shape == (1, 2, 3, 320, 352)


@pytest.mark.parametrize(("most", "taken"), [(500, 256), (100, 43), (1, None)])
def test_a_short_sample_takes_the_place_of_one_that_is_refused(most: int, taken: Optional[int]) -> None:
    def attempt(specs: Dict[str, TensorSpec]) -> int:
        length = specs["x"].shape[1]
        if length > most:
            raise UsageError(f"{length} is too long")
        return length

    inputs = [TensorInfo("x", ("n", "t"), "float32")]
    if taken is not None:
        assert first_taken(inputs, attempt) == taken
        return
    with pytest.raises(UsageError, match="256 is too long"):
        first_taken(inputs, attempt)


def numbers_of(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def test_an_example_fixes_no_number_of_channels() -> None:
    weights = {"two": np.full(1, 2, np.float32), "three": np.full(1, 3, np.float32)}
    pair = pair_of('net "": x, two, three -> y\n Mul(x, two) -> a\n Add(a, three) -> y', weights, {"x": ("n", "t", 8)})
    result = optimize(pair, shapes={"x": (1, 20, 8)})
    for shape in ((1, 20, 8), (1, 33, 8), (3, 1, 8)):
        assert_same_numbers(pair, result, {"x": numbers_of(*shape)}, **ROUNDING)


@pytest.mark.parametrize("examples", [{}, {"x": (1, 20, 8)}])
def test_a_size_that_is_clamped_is_not_known(examples: Dict[str, Any]) -> None:
    weights = {"first": np.zeros(1, np.int64), "last": np.full(1, 4, np.int64), "axes": np.ones(1, np.int64)}
    net = 'net "": x, first, last, axes -> y\n onnx.Slice(x, first, last, axes) -> a\n Relu(a) -> y'
    program = Program.of(pair_of(net, weights, {"x": ("n", "t", 8)}), examples=examples)
    assert program.dims("a") == (None, None, 8)
    assert program.dims("x") == (None, None, 8)


HEAD = "onnx.Slice(x, none, one) -> head\n Shape(head) -> sizes  axes=[0]\n onnx.Squeeze(sizes) -> count"
NONE_OR_ONE = {
    "branches": """
        EQ(count, single) -> is_one
        If(is_one) -> y  then_net={\n net "a": -> t\n ReduceSum(x) -> t  axes=[0]  keepdims=0\n
        } else_net={\n net "b": -> c\n }
    """,
    "loops": """
        onnx.Loop(count, yes, c) -> y  body={\n net "b": i, go, v -> again, w\n Copy(go) -> again\n Add(v, v) -> w\n }
    """,
}


@pytest.mark.parametrize("examples", [{}, {"x": (1, 3)}])
@pytest.mark.parametrize("rest", NONE_OR_ONE)
def test_a_batch_of_no_elements_has_no_first_element(rest: str, examples: Dict[str, Any]) -> None:
    weights = {"none": np.zeros(1, np.int64), "one": np.ones(1, np.int64), "single": np.int64(1), "yes": np.array(True)}
    net = f'net "": x, none, one, single, yes, c -> y\n {HEAD}\n {NONE_OR_ONE[rest]}'
    pair = pair_of(net, {**weights, "c": numbers_of(3)}, {"x": ("n", 3)})
    assert Program.of(pair, examples=examples).dims("head") == (None, 3)
    result = optimize(pair, shapes=examples)
    for count in (0, 1, 2):
        assert_same_numbers(pair, result, {"x": numbers_of(count, 3)}, **ROUNDING)


@pytest.mark.parametrize("examples", [{}, {"x": (2, 4, 5, 5), "z": (2, 4, 5, 5)}])
def test_inputs_that_may_differ_do_not_count_as_the_same_shape(examples: Dict[str, Any]) -> None:
    weights = {"w": numbers_of(4, 4, 1, 1)}
    net = 'net "": x, z, w -> y\n Conv(x, w) -> a  kernel=1\n Add(a, z) -> y'
    free, bound = ({"x": (n, 4, 5, 5), "z": (m, 4, 5, 5)} for n, m in (("n", "m"), ("n", "n")))
    assert operator_counts(optimize(pair_of(net, weights, bound)).predict_net) == {"armnet.FusedConv": 1}
    pair = pair_of(net, weights, free)
    feeds = {"x": numbers_of(1, 4, 5, 5), "z": numbers_of(3, 4, 5, 5)}
    assert_same_numbers(pair, optimize(pair, shapes=examples), feeds, **ROUNDING)


def test_the_number_of_dimensions_may_depend_on_an_open_size() -> None:
    net = 'net "": x -> y\n onnx.Squeeze(x) -> a\n Transpose(a) -> b\n Transpose(b) -> c\n Relu(c) -> y'
    pair = pair_of(net, shapes={"x": ("n", 2, 3)})
    result = optimize(pair)
    for count in (1, 2):
        assert_same_numbers(pair, result, {"x": numbers_of(count, 2, 3)})


def test_examples_must_agree_on_a_dimension() -> None:
    pair = pair_of('net "": x, z -> y\n Add(x, z) -> y', shapes={"x": ("n", 4), "z": ("n", 4)})
    with pytest.raises(UsageError, match="the examples give dimension 'n' both the size 2 and 3"):
        optimize(pair, shapes={"x": (2, 4), "z": (3, 4)})


@st.composite
def opened(draw: st.DrawFn, shape: Sequence[int]) -> Tuple[Optional[Tuple[Any, ...]], List[Tuple[int, ...]]]:
    """A declaration of the input with some of these sizes open, and other shapes that fit it."""
    names = draw(st.lists(st.sampled_from([None, "", "size"]), min_size=4, max_size=4))
    dims = tuple(
        size if name == "" else name and f"{name}{axis}" for axis, (size, name) in enumerate(zip(shape, names))
    )
    others = [
        tuple(size if name == "" else draw(st.integers(0, 12)) for size, name in zip(shape, names)) for _ in range(4)
    ]
    return (None if all(name is None for name in names) else dims), others


def runs(pair: Pair, feeds: Dict[str, Any]) -> bool:
    with suppress(ArmnetError):
        numbers(pair, feeds)
        return True
    return False


def test_random_nets_optimised_for_one_shape_run_with_others() -> None:
    ran = 0

    @settings(max_examples=150)
    @given(
        random_nets(most_operators=10, kinds=[*KINDS, *AGNOSTIC, *AGNOSTIC, *[kinds.of_any_width] * 8]),
        st.data(),
        st.booleans(),
    )
    def check(drawn: RandomNet, data: st.DataObject, with_example: bool) -> None:
        nonlocal ran
        declared, others = data.draw(opened(drawn.shape))
        pair = pair_of_net(drawn.net, drawn.weights, {} if declared is None else {"x": declared})
        result = optimize(pair, shapes={"x": drawn.shape} if with_example else None)
        assert_same_numbers(pair, result, drawn.feed(), **ROUNDING)
        for shape in others:
            feeds = drawn._replace(shape=shape).feed()  # type: ignore[arg-type]
            if runs(pair, feeds):
                ran += shape != drawn.shape
                assert_same_numbers(pair, result, feeds, **ROUNDING)

    check()
    assert ran >= 50, f"only {ran} runs with shapes other than the example"


def test_the_name_of_a_size_may_be_a_sum() -> None:
    net = 'net "": x, past, mask, w, b -> y\n Concat(past, x) -> a, _  axis=1\n Add(a, mask) -> c\n'
    net += " onnx.MatMul(c, w) -> d\n Add(d, b) -> y"
    weights = {"w": numbers_of(4, 6), "b": numbers_of(6)}
    for name, count in (("past + 1", 1), ("past+ new", "new")):
        shapes: Dict[str, Any] = {"x": (1, count, 4), "past": (1, "past", 4), "mask": (1, name, 1)}
        pair = pair_of(net, weights, shapes)
        result = optimize(pair)
        assert operator_counts(result.predict_net) == {"Concat": 1, "Add": 1, "FCTransposed": 1}
        feed = {"x": numbers_of(1, 1, 4), "past": numbers_of(1, 5, 4), "mask": numbers_of(1, 6, 1)}
        assert_same_numbers(pair, result, feed, **ROUNDING)
