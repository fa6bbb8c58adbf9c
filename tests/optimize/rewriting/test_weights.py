"""Weights: read when asked for, changed without copying."""

from __future__ import annotations

import numpy as np
import pytest

from optimize.rewriting.weights import Weights, with_unpacked_fills
from runtime_arm.errors import ExportError, OperatorError
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill

W = np.arange(12, dtype=np.float32).reshape(3, 4)


def weights(text: str = "", **arrays: np.ndarray) -> Weights:
    fills = tuple(fill(name, array) for name, array in arrays.items())
    return Weights(NetDef("init", (*fills, *NetDef.from_text(text).op)))


@pytest.mark.parametrize("unpacked", [False, True])
def test_values_are_views_of_the_net(unpacked: bool) -> None:
    made = fill("w", W, unpacked)
    argument = made.argument("values")
    value = Weights(NetDef("init", (made,))).value("w")
    assert value is not None
    assert argument is not None
    assert np.shares_memory(value, argument.floats if unpacked else W)
    assert not value.flags.writeable


@pytest.mark.parametrize(
    "text",
    [
        "XavierFill() -> w  shape=[3]",
        "ConstantFill() -> w  shape=[3]\nRelu(w) -> w",
        "ConstantFill() -> v  shape=[3]\nRelu(v) -> w",
        'Int8GivenTensorFill() -> w  shape=[3]  values="abc"  Y_scale=1.0',
        "Mystery() -> w",
    ],
)
def test_blobs_that_are_not_constant_fills_have_no_value(text: str) -> None:
    assert weights(text).value("w") is None


def test_a_constant_that_something_else_uses_in_init_net_is_left_alone() -> None:
    some = weights("Relu(w) -> v", w=W)
    assert "w" not in some


def test_variables_have_no_value() -> None:
    assert "w" not in Weights(NetDef("init", (fill("w", W),)), {"w"})


def test_an_invalid_fill_is_refused_when_it_is_read() -> None:
    with pytest.raises(OperatorError, match="shape"):
        weights("GivenTensorFill() -> w  shape=[3]  values=[1.0]").value("w")


def test_changing_leaves_the_original_alone() -> None:
    before = weights(u=W, v=W)
    after = before.changed({"u": None, "n": W * 2})
    assert list(before.names) == ["u", "v"]
    assert list(after.names) == ["v", "n"]
    value, kept = after.value("n"), after.value("v")
    assert value is not None
    assert kept is not None
    np.testing.assert_array_equal(value, W * 2)
    assert np.shares_memory(kept, W)


def test_declared_outputs_of_init_net_follow() -> None:
    init = NetDef("init", (fill("u", W), fill("v", W)), external_output=("u", "v"))
    assert Weights(init).changed({"u": None, "n": W}).init_net.external_output == ("v", "n")


def test_equal_weights_have_equal_digests() -> None:
    some = weights(a=W, b=W.copy(), c=W.reshape(4, 3), d=W.astype(np.float64), e=W + 1)
    digests = [some.digest(name) for name in "abcde"]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


def test_unpacked_fills_are_caffe2s() -> None:
    net = with_unpacked_fills(NetDef("init", (fill("w", W), fill("n", np.arange(3)))))
    assert [op.type for op in net.op] == ["GivenTensorFill", "GivenTensorInt64Fill"]
    assert not any(arg.t is not None for op in net.op for arg in op.arg)
    value = Weights(net).value("w")
    assert value is not None
    np.testing.assert_array_equal(value, W)
    with pytest.raises(ExportError, match="float16"):
        with_unpacked_fills(NetDef("init", (fill("h", W.astype(np.float16)),)))
