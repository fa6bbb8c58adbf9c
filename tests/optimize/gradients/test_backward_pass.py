"""The backward pass: names, sums, versions and refusals, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from optimize.gradients import SparseGradient, add_gradient_operators
from runtime_arm.errors import GradientError, UsageError
from runtime_arm.execution.workspace import Workspace
from runtime_arm.netdef import NetDef


def appended(text: str, ys: Any) -> str:
    """The appended operators, without the mark that all gradient operators have."""
    net = NetDef.from_text(text)
    made, _ = add_gradient_operators(net, ys)
    assert made.op[: len(net.op)] == net.op
    lines = NetDef(op=made.op[len(net.op) :]).to_text().strip().splitlines()
    return "\n".join(line.replace("  is_gradient_op=1", "").replace(MARK, "") for line in lines)


MARK = "  device=(extra_info=[is_auto_gen_sum_ops:1])"


def test_a_chain_is_walked_backwards_from_ones() -> None:
    assert appended("Relu(X) -> h\nAveragedLoss(h) -> loss", ["loss"]) == (
        "ConstantFill(loss) -> loss_autogen_grad  value=1.0\n"
        "AveragedLossGradient(h, loss_autogen_grad) -> h_grad\n"
        "ReluGradient(h, h_grad) -> X_grad"
    )


def test_a_blob_that_is_read_three_times_gets_a_sum() -> None:
    assert appended("Relu(X) -> a\nSin(X) -> b\nTanh(X) -> c\nSum(a, b, c) -> Y", {"Y": "dY"}) == (
        "TanhGradient(c, dY) -> X_grad\n"
        "SinGradient(X, dY) -> _X_grad_autosplit_0\n"
        "ReluGradient(a, dY) -> _X_grad_autosplit_1\n"
        "Sum(X_grad, _X_grad_autosplit_0, _X_grad_autosplit_1) -> X_grad"
    )


def test_an_operator_may_read_a_blob_twice() -> None:
    assert appended("Mul(X, X) -> Y", {"Y": "dY"}) == (
        "MulGradient(dY, X, X) -> X_grad, _X_grad_autosplit_0\nSum(X_grad, _X_grad_autosplit_0) -> X_grad"
    )


def test_a_gradient_of_several_operators_is_renamed_in_all_of_them() -> None:
    """Caffe2 renames the last one alone, and adds what the others left."""
    assert appended("Relu(X) -> r\nSqrt(r) -> a\nSin(r) -> b\nAdd(a, b) -> Y", {"Y": "dY"}).splitlines()[1:4] == [
        "SinGradient(r, b_grad) -> r_grad",
        "Scale(a_grad) -> _r_grad_autosplit_0  scale=0.5",
        "Div(_r_grad_autosplit_0, a) -> _r_grad_autosplit_0",
    ]


def test_in_place_operators_have_gradients_in_place() -> None:
    assert appended("FC(X, w, b) -> h\nRelu(h) -> h", {"h": "dh"}) == (
        "ReluGradient(h, dh) -> h_grad\nFCGradient(X, w, h_grad) -> w_grad, b_grad, X_grad"
    )


def test_a_gradient_that_others_need_is_not_overwritten() -> None:
    """Sqr doubles its gradient where it lies, unless the other input of a Sum has it too."""
    assert appended("Sigmoid(X) -> a\nSqr(Z) -> b\nSum(a, b) -> Y", {"Y": "dY"}) == (
        "Scale(dY) -> dY_1  scale=2.0\nMul(dY_1, Z) -> Z_grad\nSigmoidGradient(a, dY) -> X_grad"
    )
    assert appended("Sqr(X) -> Y", {"Y": "dY"}) == "Scale(dY) -> dY  scale=2.0\nMul(dY, X) -> X_grad"


def test_a_gradient_given_for_a_blob_on_the_way_is_added() -> None:
    """Caffe2 drops it."""
    assert appended("Relu(X) -> h\nTanh(h) -> Y", {"Y": "dY", "h": "dh"}) == (
        "TanhGradient(Y, dY) -> h_grad\nSum(h_grad, dh) -> h_grad\nReluGradient(h, h_grad) -> X_grad"
    )


def test_nothing_flows_through_stop_gradient() -> None:
    net, gradients = add_gradient_operators(
        NetDef.from_text("Relu(X) -> a\nStopGradient(a) -> s\nMul(a, s) -> Y"), {"Y": "dY"}
    )
    assert gradients == {"Y": "dY", "a": "a_grad", "s": "s_grad", "X": "X_grad"}
    assert [op.type for op in net.op[3:]] == ["MulGradient", "ReluGradient"]


def test_inputs_and_outputs_of_the_net_are_extended() -> None:
    net, _ = add_gradient_operators(NetDef.from_text('net "n": X -> Y\nRelu(X) -> Y'), {"Y": "dY"})
    assert (net.external_input, net.external_output) == (("X", "dY"), ("Y", "X_grad"))


@pytest.mark.parametrize(
    ("text", "ys", "message"),
    [
        ("ArgMax(X) -> Y", ["Y"], "ArgMax has no gradient"),
        ("Nonsense(X) -> Y", ["Y"], "Nonsense has no gradient"),
        ("Sqr(X) -> Y\nRelu(X) -> X\nAdd(X, Y) -> Z", ["Z"], "'X' at version 0, but it was overwritten 1 time"),
        ("Log(X) -> X", ["X"], "the operator overwrites"),
        ("StopGradient(X) -> s", ["s"], "nothing reads the output"),
        ("LRN(X) -> Y\nConcat(Y, X) -> Z", ["Z"], "needs output 1"),
    ],
)
def test_what_has_no_gradient_is_refused(text: str, ys: Any, message: str) -> None:
    with pytest.raises(GradientError, match=message):
        add_gradient_operators(NetDef.from_text(text), ys)


@pytest.mark.parametrize("ys", [["nothing"], "Y", 3])
def test_ys_must_name_blobs(ys: Any) -> None:
    with pytest.raises(UsageError):
        add_gradient_operators(NetDef.from_text("Relu(X) -> Y"), ys)


def test_names_of_the_net_are_not_taken() -> None:
    """A blob of the net that happens to be called X_grad keeps its content."""
    net, gradients = add_gradient_operators(NetDef.from_text("Sin(X) -> X_grad\nRelu(X) -> Y"), {"Y": "dY"})
    assert gradients["X"] == "X_grad_1"
    workspace = Workspace()
    workspace.feed("X", np.array([1.0, -1.0], np.float32))
    workspace.feed("dY", np.array([3.0, 4.0], np.float32))
    workspace.run_net_once(net)
    assert workspace.fetch("X_grad_1").tolist() == [3.0, 0.0]
    assert_each_close(workspace.fetch("X_grad"), np.sin([1.0, -1.0]))


def test_a_sparse_gradient_is_a_pair() -> None:
    assert SparseGradient("i", "dY") == ("i", "dY")
