"""The driver checks every pass, stops after a given step, limits the rounds, and reports steps and refusals."""

from __future__ import annotations

from typing import Callable, Iterator, List

import numpy as np
import pytest

from optimize.rewriting.patterns import operator, rule
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.report import Recorder, Report
from optimize.rewriting.rewrite import BrokenPass, Pass, Refusal, Rule, run_passes
from runtime_arm.netdef import OperatorDef
from tests.optimize.nets import Outcome, lines, pair_of

CHAIN = """
    net "chain": x -> y
    Relu(x) -> a
    Relu(a) -> b
    Sigmoid(b) -> y
"""


def relus_to_one(program: Program, x: str, second: OperatorDef) -> Rewrite:
    return Rewrite((OperatorDef.of("Relu", [x], second.output),))


RELU = operator({"Relu"})
MERGE_RELUS = Pass("merge_relus", (rule(operator({"Relu"}, "second")(RELU("x")), to=relus_to_one),))


def pass_of(rewrite: Callable[[Program, OperatorDef], Rewrite], type: str = "Relu", name: str = "test_pass") -> Pass:
    return Pass(name, (rule(operator({type}, "op"), to=rewrite),))


def test_a_rule_fires_and_is_reported() -> None:
    outcome = Outcome(pair_of(CHAIN), [MERGE_RELUS])
    assert outcome.text == ["Relu(x) -> b", "Sigmoid(b) -> y"]
    assert str(outcome.report).splitlines() == [
        "step 1: merge_relus",
        "  - Relu(x) -> a",
        "  - Relu(a) -> b",
        "  + Relu(x) -> b",
    ]


def test_a_chain_collapses_in_one_go() -> None:
    text = 'net "": x -> y\n' + "".join(f"Relu(b{i}) -> b{i + 1}\n" for i in range(50)) + "Relu(b50) -> y"
    outcome = Outcome(pair_of(text.replace("b0)", "x)")), [MERGE_RELUS])
    assert outcome.text == ["Relu(x) -> y"]
    assert outcome.report.steps_by_pass() == {"merge_relus": 50}


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        ('net "": x -> y, z\n Relu(x) -> a\n Relu(a) -> y\n Sigmoid(a) -> z', "'a' is read by Sigmoid(a) -> z as well"),
        ('net "": x -> a, y\n Relu(x) -> a\n Relu(a) -> y', "'a' is an output of the net"),
        (
            'net "": x, c -> y\n Relu(x) -> a\n Relu(a) -> y\n If(c) -> z  then_net={\n Sigmoid(a) -> z\n }',
            "'a' is read by If(c) -> z as well",
        ),
        ('net "": x, s -> y\n Relu(s) -> a\n Relu(a) -> s\n Add(x, s) -> y', "'s' is written more than once"),
    ],
)
def test_blobs_that_others_need_are_left_alone(net: str, reason: str) -> None:
    outcome = Outcome(pair_of(net), [MERGE_RELUS])
    assert not outcome.report.steps
    assert outcome.reasons == [reason]
    assert outcome.after == outcome.before


def test_passes_see_in_place_nets_in_single_assignment_form() -> None:
    outcome = Outcome(pair_of('net "": x -> y\n Relu(x) -> y\n Relu(y) -> y\n Sigmoid(y) -> y'), [MERGE_RELUS])
    assert outcome.text == ["Relu(x) -> y_2", "Sigmoid(y_2) -> y"]


def test_stop_after_limits_the_number_of_steps() -> None:
    text = 'net "": x -> y\n Relu(x) -> a\n Relu(a) -> b\n Relu(b) -> c\n Relu(c) -> y'
    for steps, left in ((0, 4), (1, 3), (2, 2), (3, 1), (9, 1)):
        outcome = Outcome(pair_of(text), [MERGE_RELUS], stop_after=steps)
        assert len(outcome.after.predict_net.op) == left
        assert len(outcome.report.steps) == min(steps, 3)


def test_blobs_of_different_shapes_cannot_share_a_name() -> None:
    def drop(program: Program, op: OperatorDef) -> Rewrite:
        return Rewrite(rename={op.output[0]: op.input[0]})

    pair = pair_of('net "": x -> y\n Flatten(x) -> a\n Relu(a) -> y', shapes={"x": ("n", 2, 3)})
    with pytest.raises(BrokenPass, match=r"test_pass gave 'a', float32\[2, 6\], .* 'x', float32\[2, 2, 3\]"):
        Outcome(pair, [pass_of(drop, "Flatten")])


def test_a_refusal_keeps_its_reason() -> None:
    def refuse(program: Program, op: OperatorDef) -> Rewrite:
        raise Refusal("not today")

    outcome = Outcome(pair_of(CHAIN), [pass_of(refuse, "Sigmoid")])
    assert str(outcome.report) == "test_pass refused Sigmoid(b) -> y: not today"


def test_an_invalid_operator_is_a_refusal_and_not_an_error() -> None:
    def read(program: Program, op: OperatorDef) -> Rewrite:
        op.get_int("axis")
        return Rewrite()

    outcome = Outcome(pair_of('net "": x -> y\n Softmax(x) -> y  axis=1.5'), [pass_of(read, "Softmax")])
    assert len(outcome.reasons) == 1
    assert "'axis' must be given as an integer, got a float" in outcome.reasons[0]


def test_a_replacement_that_refuses_its_inputs_is_not_made() -> None:
    def pool(program: Program, op: OperatorDef) -> Rewrite:
        return Rewrite((OperatorDef.of("AveragePool", ["x"], ["y"], kernel=1, pads=[1, 0, 0, 0]),))

    outcome = Outcome(pair_of('net "": x -> y\n Relu(x) -> y', shapes={"x": (1, 1, 3, 3)}), [pass_of(pool)])
    assert outcome.after == outcome.before
    assert "pads must be smaller than the kernel" in outcome.reasons[0]


@pytest.mark.parametrize(
    ("rewrite", "complaint"),
    [
        (Rewrite(), "pass test_pass broke the net: .*no operator writes the external output 'y'"),
        (Rewrite((OperatorDef.of("Sigmoid", ["nowhere"], ["y"]),)), "pass test_pass broke the net: .*'nowhere'"),
        (Rewrite((OperatorDef.of("Relu", ["x"], ["y"]),)), "pass test_pass: no end after 20 rewrites"),
        (Rewrite((OperatorDef.of("Flatten", ["x"], ["y"], axis=0),)), "pass test_pass changed 'y' from float32"),
    ],
)
def test_a_pass_that_breaks_the_net_is_named(rewrite: Rewrite, complaint: str) -> None:
    pair = pair_of('net "": x -> y\n Relu(x) -> y', shapes={"x": (2, 3)})
    with pytest.raises(BrokenPass, match=complaint):
        Outcome(pair, [pass_of(lambda program, op: rewrite)])


def test_a_pass_without_end_is_named() -> None:
    def again(program: Program, match: Match) -> Rewrite:
        return Rewrite((program.net.op[match.places[0]],))

    def forever(program: Program, start: int) -> Iterator[Match]:
        if start == 0 and len(program.net.op) > 1:
            yield Match((1,))

    with pytest.raises(BrokenPass, match="endless"):
        Outcome(pair_of(CHAIN), [Pass("endless", (Rule(forever, again),))])


def test_passes_that_undo_each_other_are_named() -> None:
    there = pass_of(lambda program, op: Rewrite((op.replace(type="Sigmoid"),)), "Relu", "there")
    back = pass_of(lambda program, op: Rewrite((op.replace(type="Relu"),)), "Sigmoid", "back")
    with pytest.raises(BrokenPass, match=r"no end after .* rounds; still firing: back, there"):
        Outcome(pair_of('net "": x -> y\n Relu(x) -> y'), [there, back])


def test_a_pass_looks_at_a_net_again_only_if_another_pass_changed_it() -> None:
    told: List[str] = []
    looked: List[int] = []

    def nothing(program: Program, start: int) -> Iterator[Match]:
        looked.append(len(program.net.op))
        yield from ()

    idle = Pass("idle", (Rule(nothing, lambda program, match: Rewrite()),))
    program = Program.of(pair_of(CHAIN))
    run_passes(program, [idle, MERGE_RELUS], Recorder(progress=lambda text, done, total: told.append(text)))
    assert looked == [3, 2]
    assert told == ["pass idle", "pass merge_relus"] * 2
    looked.clear()
    run_passes(program, [MERGE_RELUS, idle], Recorder())
    assert looked == [2]


def test_new_and_removed_weights_change_the_external_inputs() -> None:
    def double(program: Program, op: OperatorDef) -> Rewrite:
        weight = program.value(op.input[1])
        assert weight is not None
        name = program.fresh("w")
        return Rewrite(
            (OperatorDef.of("Sub", [op.input[0], name], op.output),), weights={op.input[1]: None, name: weight * 2}
        )

    pair = pair_of('net "": x, w -> y\n Add(x, w) -> y', {"w": np.ones(3, np.float32)}, {"x": (2, 3)})
    outcome = Outcome(pair, [pass_of(double, "Add")])
    assert outcome.text == ["Sub(x, w_1) -> y"]
    assert outcome.after.predict_net.external_input == ("x", "w_1")
    assert [op.output for op in outcome.after.init_net.op] == [("w_1",)]
    assert outcome.weight("w_1").tolist() == [2, 2, 2]
    assert outcome.report.steps[0].notes == ["new weight w_1 float32[3]", "weight w removed"]


def test_open_sizes_are_tried_out() -> None:
    net = """
        net "": x, n -> y
        Relu(x) -> a
        Flatten(x) -> b
        Reshape(x) -> c, c_old  shape=[2, -1]
        Transpose(x) -> d  axes=[0, 1, 3, 2]
        Add(x, x) -> y
    """
    program = Program.of(pair_of(net, shapes={"x": ("batch", 3, None, None), "n": ("batch",)}))
    shapes = [spec.shape for spec in program.specs("b") if spec is not None]
    assert len({shape[0] for shape in shapes}) == len({shape[1] for shape in shapes}) == 2
    assert program.have_same_shape("x", "a")
    assert not program.have_same_shape("b", "c")
    assert not program.have_same_shape("x", "d")
    assert program.dims("d") == (None, 3, None, None)
    assert {spec.shape[0] for spec in program.specs("n") if spec is not None} == {shape[0] for shape in shapes}


def test_operators_that_inference_refuses_are_reported_and_the_rest_is_known() -> None:
    net = 'net "": x -> y\n Relu(x) -> a\n Mystery(a) -> b\n Relu(b) -> y'
    program = Program.of(pair_of(net, shapes={"x": (2, 3)}))
    assert program.specs("y") == [None]
    assert program.specs("a")[0] is not None
    assert program.inference_refusals == {1: "Mystery(a) -> b: unknown operator type 'Mystery'"}


def test_a_report_lists_each_refusal_once() -> None:
    report = Report()
    report.begin("p")
    for _ in range(3):
        report.refuse("p", [OperatorDef.of("Relu", ["x"], ["y"])], "why")
    assert len(report.refused) == 1


def test_without_passes_the_net_stays_as_it_is() -> None:
    pair = pair_of(CHAIN)
    assert run_passes(Program.of(pair), [], Recorder()).pair(pair) == pair
    assert lines(pair.predict_net.to_text())[1:] == ["Relu(x) -> a", "Relu(a) -> b", "Sigmoid(b) -> y"]
