"""The values: equality, accessors, what a net reads."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Callable

import numpy as np
import pytest

from runtime_arm.errors import ArgumentError
from runtime_arm.netdef import Argument, NetDef, OperatorDef, frozen

OP = OperatorDef.of(
    "Conv",
    ["X", "W"],
    ["Y"],
    kernel=3,
    alpha=0.1,
    order="NCHW",
    pads=[1, -1],
    scales=[0.5, 2],
    names=["a", "b"],
    empty=[],
    flag=True,
    body=NetDef("b"),
    w=np.arange(3),
)


def test_arguments_are_read_by_their_kind() -> None:
    assert OP.get_int("kernel") == 3
    assert OP.get_bool("flag") is True
    assert OP.get_float("alpha") == float(np.float32(0.1))
    assert OP.get_str("order") == "NCHW"
    assert OP.get_ints("pads") == (1, -1)
    assert OP.get_floats("scales") == (0.5, 2.0)
    assert OP.get_strs("names") == ("a", "b")
    assert OP.get_net("body") == NetDef("b")
    assert OP.get_tensor("w").tolist() == [0, 1, 2]
    assert (OP.get_ints("empty", [7]), OP.get_floats("empty", [7.0]), OP.get_strs("empty")) == ((), (), ())


def test_an_absent_argument_has_its_default() -> None:
    assert (OP.get_int("x", 5), OP.get_float("x", 0.5), OP.get_str("x", "s"), OP.get_bool("x")) == (5, 0.5, "s", False)
    assert (OP.get_ints("x", [1]), OP.get_floats("x", [0.5]), OP.get_strs("x")) == ((1,), (0.5,), ())
    with pytest.raises(ArgumentError, match=r"^Conv\(X, W\) -> Y: argument 'x' is required$"):
        OP.get_int("x")


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda: OP.get_float("kernel"), "argument 'kernel' must be given as a float, got an integer"),
        (lambda: OP.get_int("alpha", 1), "argument 'alpha' must be given as an integer, got a float"),
        (lambda: OP.get_bool("order"), "argument 'order' must be given as an integer, got a string"),
        (lambda: OP.get_str("pads"), "argument 'pads' must be given as a string, got a list of integers"),
        (lambda: OP.get_ints("scales"), "argument 'scales' must be given as a list of integers, got a list of floats"),
        (lambda: OP.get_ints("kernel"), "argument 'kernel' must be given as a list of integers, got an integer"),
        (lambda: OP.get_int("empty"), "argument 'empty' must be given as an integer, got nothing"),
        (lambda: OP.get_tensor("body"), "argument 'body' must be given as a tensor, got a net"),
    ],
)
def test_another_kind_is_refused_as_in_caffe2(read: Callable[[], Any], problem: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read()
    assert problem in str(caught.value)


def test_arguments_are_replaced_and_removed() -> None:
    op = OP.with_args(kernel=5, order=None, new="x")
    assert (op.get_int("kernel"), op.has("order"), op.get_str("new")) == (5, False, "x")
    assert (OP.get_int("kernel"), OP.has("order")) == (3, True)


def test_values_are_equal_bit_for_bit() -> None:
    def op(value: Any) -> OperatorDef:
        return OperatorDef.of("Op", [], ["y"], x=value)

    nan = np.array([np.nan], np.float32)
    assert op(nan) == op(nan.copy())
    assert op(float("nan")) == op(float("nan"))
    assert op(0.0) != op(-0.0)
    assert op(np.zeros(2, np.float32)) != op(-np.zeros(2, np.float32))
    assert op(np.zeros(2, np.float32)) != op(np.zeros(2, np.int32))
    assert op(np.zeros((2, 1))) != op(np.zeros((1, 2)))
    assert op(np.arange(6).reshape(2, 3).T) == op(np.arange(6).reshape(2, 3).T.copy())
    assert op(1) != op(1.0)
    assert op([]) == op([])
    assert op(1) != "op"


def test_equal_values_have_equal_hashes() -> None:
    for other in (pickle.loads(pickle.dumps(OP)), copy.deepcopy(OP)):
        assert other == OP
        assert hash(other) == hash(OP)
    assert len({NetDef("a"), NetDef("a"), NetDef("b")}) == 2


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        OP.type = "Relu"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        OP.get_tensor("w")[0] = 5


def test_freezing_leaves_the_original_as_it_is() -> None:
    array = np.zeros(2)
    assert not frozen(array).flags.writeable
    array[0] = 1


@pytest.mark.parametrize("value", [[1, "a"], [object()], {"a": 1}.items()])
def test_lists_of_mixed_kinds_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="of one kind"):
        Argument.of("x", value)


def test_lists_choose_their_kind() -> None:
    kinds = [Argument.of("x", value).kind for value in ([1, 2], [1, 0.5], ["a"], [NetDef()], [np.zeros(1)], [])]
    assert kinds == ["ints", "floats", "strings", "nets", "tensors", ""]


NET = NetDef.from_text("""
net "n": x, c -> y, z
Relu(x) -> a
If(c) -> y  then_net={
  Add(a, w) -> t
  Relu(t) -> y
}  else_net={
  net "else": -> y
}
Add(a, a, "") -> b
""")


def test_an_operator_reads_what_its_sub_nets_take_from_outside() -> None:
    assert NET.op[1].reads() == ("c", "a", "w", "y")
    assert NET.op[2].reads() == ("a",)
    assert NET.captures() == ("x", "c", "w", "y", "z")


def test_signatures_take_one_line() -> None:
    op = OperatorDef("Resize", ("x", ""), ("a\nb",), domain="onnx")
    assert op.signature() == r"onnx.Resize(x, ) -> 'a\nb'"
    assert OperatorDef("x" * 1000).signature() == f"'{'x' * 120}'() -> "
