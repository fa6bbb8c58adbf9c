"""Every blob is written once, if that is possible."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from optimize.rewriting.single_assignment import names_in, single_assignment
from runtime_arm.execution.executor import Executor
from runtime_arm.netdef import NetDef
from tests.support.random_nets import RandomNet, random_nets


def assigned(text: str) -> list[str]:
    net = single_assignment(NetDef.from_text(text))
    return net.replace(name="", external_input=(), external_output=()).to_text().splitlines()


def test_all_writes_but_the_last_get_names_of_their_own() -> None:
    net = 'net "": x -> y\n Relu(x) -> y\n Sigmoid(y) -> y_1\n Add(y, y_1) -> y\n Relu(y) -> y'
    assert assigned(net) == ["Relu(x) -> y_2", "Sigmoid(y_2) -> y_1", "Add(y_2, y_1) -> y_3", "Relu(y_3) -> y"]


def test_state_and_blobs_of_sub_nets_keep_their_names() -> None:
    state = ["Add(x, s) -> s", "Relu(s) -> s"]
    assert assigned('net "": x, s -> s\n ' + "\n ".join(state)) == state
    outer = 'net "": x, c -> y\n Relu(x) -> a\n Relu(a) -> a\n If(c) -> y  then_net={\n Sigmoid(a) -> y\n }'
    assert assigned(outer)[:2] == ["Relu(x) -> a", "Relu(a) -> a"]


def test_a_net_in_single_assignment_form_is_returned_as_it_is() -> None:
    net = NetDef.from_text('net "": x -> y\n Relu(x) -> a\n Relu(a) -> y')
    assert single_assignment(net) is net


def test_names_in_sub_nets_are_found() -> None:
    net = NetDef.from_text('net "": c -> y\n If(c) -> y  then_net={\n Sigmoid(a) -> b\n Copy(b) -> y\n }')
    assert names_in(net) == {"c", "y", "a", "b"}


@settings(max_examples=100)
@given(random_nets())
def test_it_changes_no_result(drawn: RandomNet) -> None:
    net = single_assignment(drawn.net)
    written = [name for op in net.op for name in op.output]
    assert len(set(written)) == len(written)
    before, after = (Executor(one, drawn.weights).run(drawn.feed(), net.external_output) for one in (drawn.net, net))
    for name in net.external_output:
        np.testing.assert_array_equal(before[name], after[name])
