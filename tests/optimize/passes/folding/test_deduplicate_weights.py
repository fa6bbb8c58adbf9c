"""Equal weights become one."""

from __future__ import annotations

import numpy as np

from optimize.passes.folding.deduplicate_weights import PASS
from tests.optimize.kinds import twin_weights
from tests.optimize.nets import applied, assert_keeps_numbers

ONES = np.ones(3, np.float32)
NET = 'net "": x, u, v, w -> y\n Add(x, u) -> a\n Add(a, v) -> b\n Add(b, w) -> y'


def test_equal_weights_become_the_first_of_them() -> None:
    outcome = applied(PASS, NET, {"u": ONES, "v": ONES * 2, "w": ONES.copy()})
    assert outcome.text == ["Add(x, u) -> a", "Add(a, v) -> b", "Add(b, u) -> y"]
    assert outcome.after.predict_net.external_input == ("x", "u", "v")
    assert [op.output[0] for op in outcome.after.init_net.op] == ["u", "v"]


def test_weights_that_differ_in_anything_stay_apart() -> None:
    zero = np.zeros(2, np.float32)
    others = [zero.astype(np.float64), zero.reshape(1, 2), -zero, zero.astype(np.int32), np.zeros(3, np.float32)]
    for other in others:
        assert not applied(PASS, NET, {"u": zero, "v": other, "w": ONES}).report.steps, other


def test_weights_that_must_keep_their_names_stay() -> None:
    output = 'net "": x, u, w -> y, w\n Add(x, u) -> a\n Add(a, w) -> y'
    inner = 'net "": x, u, w, c -> y\n Add(x, u) -> a\n If(c) -> y  then_net={\n Add(a, w) -> y\n }'
    state = 'net "": x, u, w -> y\n Add(x, u) -> a\n Add(a, w) -> y\n Relu(y) -> w'
    for net in (output, inner, state):
        assert not applied(PASS, net, {"u": ONES, "w": ONES}).report.steps, net


def test_random_nets_compute_the_same() -> None:
    assert_keeps_numbers([PASS], [twin_weights])
