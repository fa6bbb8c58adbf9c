"""Operators that return their input are removed, unless the copy is needed."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.passes.removing.remove_no_ops import PASS
from tests.optimize.kinds import copying, stacking, viewing
from tests.optimize.nets import applied, assert_keeps_numbers

SHAPES = {"x": (2, 3, 4, 4)}


@pytest.mark.parametrize(
    "op",
    [
        "Copy(a) -> b",
        "Alias(a) -> b",
        "StopGradient(a) -> b",
        "onnx.Identity(a) -> b",
        "Dropout(a) -> b  is_test=1",
        "Dropout(a) -> b, mask  is_test=1",
        "onnx.Dropout(a) -> b",
        "onnx.Dropout(a, ratio) -> b",
        "Cast(a) -> b  to=1",
        'Cast(a) -> b  to="float"',
        "Cast(a) -> b",
        "Sum(a) -> b",
        "Concat(a) -> b, b_dims  axis=1",
        "onnx.Max(a) -> b",
        "Reshape(a) -> b, b_old  shape=[0, 3, -1, 4]",
        "onnx.Reshape(a, shape) -> b",
    ],
)
def test_operators_that_change_nothing_are_removed(op: str) -> None:
    weights = {"ratio": np.float32(0.3), "shape": np.array([2, 3, 4, 4]), "w": np.ones(1, np.float32)}
    net = f'net "": x, ratio, shape, w -> y\n Relu(x) -> a\n {op}\n Add(b, w) -> y'
    assert applied(PASS, net, weights, SHAPES).text == ["Relu(x) -> a", "Add(a, w) -> y"]


@pytest.mark.parametrize(
    "op",
    [
        "Dropout(a) -> b, mask  is_test=0",
        "onnx.Dropout(a, ratio, train) -> b",
        "Cast(a) -> b  to=13",
        "Sum(a, a) -> b",
        "Concat(a) -> b, b_dims  axis=1  add_axis=1",
        "DepthConcat(a) -> b, b_dims  axis=1  add_axis=1",
        "Reshape(a) -> b, b_old  shape=[3, 2, 4, 4]",
        "Flatten(a) -> b",
        "Transpose(a) -> b  axes=[0, 1, 3, 2]",
    ],
)
def test_operators_that_change_something_stay(op: str) -> None:
    weights = {"ratio": np.float32(0.3), "train": np.array(True)}
    net = f'net "": x, ratio, train -> y\n Relu(x) -> a\n {op}\n Relu(b) -> y'
    assert op in applied(PASS, net, weights, SHAPES).text


def test_views_stay_if_shapes_are_not_known() -> None:
    net = 'net "": x -> y\n Reshape(x) -> a, a_old  shape=[2, 3]\n Relu(a) -> y'
    assert not applied(PASS, net).report.steps


def test_a_size_that_fits_by_chance_is_not_relied_on() -> None:
    net = 'net "": x -> y\n Reshape(x) -> a, a_old  shape=[2, 3, 224, 224]\n Relu(a) -> y'
    assert not applied(PASS, net, shapes={"x": ("batch", 3, 224, 224)}).report.steps


def test_an_output_keeps_its_name() -> None:
    outcome = applied(PASS, 'net "": x -> y\n Relu(x) -> a\n Copy(a) -> y\n Sigmoid(a) -> b')
    assert outcome.text == ["Relu(x) -> y", "Sigmoid(y) -> b"]


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ('net "": x -> a, y\n Relu(x) -> a\n Copy(a) -> y', "'y' is an output of the net"),
        ('net "": x -> y\n Copy(x) -> y', "'y' is an output of the net"),
        (
            'net "": x -> y\n Dropout(x) -> a, mask  is_test=1\n Relu(a) -> b\n Cast(mask) -> y  to=1',
            "'mask' is read by Cast(mask) -> y as well",
        ),
        ('net "": x, s -> y\n Add(x, s) -> y\n Copy(y) -> s', "'s' is written more than once"),
        ('net "": x, c -> y\n Copy(x) -> a\n If(c) -> y  then_net={\n Relu(a) -> y\n }', "a sub-net knows 'a' by name"),
    ],
)
def test_copies_that_are_needed_stay(net: str, reason: str) -> None:
    outcome = applied(PASS, net)
    assert not outcome.report.steps
    assert reason in outcome.reasons


def test_only_the_last_of_several_reshapes_stays() -> None:
    net = """
        net "": x -> y
        Flatten(x) -> a
        Reshape(a) -> b, b_old  shape=[4, 24]
        Reshape(b) -> c, c_old  shape=[-1, 6]
        Relu(c) -> y
    """
    assert applied(PASS, net, shapes=SHAPES).text == ["Reshape(x) -> c, c_old_1  shape=[-1, 6]", "Relu(c) -> y"]


def test_a_reshape_that_copies_sizes_needs_the_one_before() -> None:
    net = 'net "": x -> y\n Flatten(x) -> a\n Reshape(a) -> b, b_old  shape=[0, 8, 6]\n Relu(b) -> y'
    outcome = applied(PASS, net, shapes=SHAPES)
    assert not outcome.report.steps
    assert outcome.reasons == ["the shape copies sizes of its input"]


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [copying, stacking, viewing])
