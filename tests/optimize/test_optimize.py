"""optimize(): its options and its errors; it changes no result."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import pytest
from hypothesis import given, settings

from optimize import Report, optimize
from optimize.rewriting.report import operator_counts
from runtime_arm.errors import ExportError, ShapeError, UsageError
from runtime_arm.netdef import NetDef
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from tests.optimize import kinds
from tests.optimize.nets import assert_same_numbers, pair_of, pair_of_net
from tests.support.random_nets import DATA_DEPENDENT, KINDS, RandomNet, random_nets

ROUNDING = {"terms": 100, "layers": 6}  # folding rounds differently
CAFFE2S = [
    kinds.activated_layer,
    kinds.activated_parts,
    kinds.branching,
    kinds.convolving,
    kinds.copying,
    kinds.flat_layer,
    kinds.gating,
    kinds.hard_gating,
    kinds.gate_of_convolution,
    kinds.matrix_layer,
    kinds.normalising,
    kinds.of_constants,
    kinds.padding,
    kinds.repeating,
    kinds.residual,
    kinds.scaling,
    kinds.stacking,
    kinds.transposing,
    kinds.twin_weights,
    kinds.viewing,
]
EVERYTHING = [*CAFFE2S, kinds.spelled_gelu, kinds.attending, kinds.looping, kinds.listing, *DATA_DEPENDENT]

RANDOM = np.random.default_rng(4)
WEIGHTS: Dict[str, Any] = {
    "w": RANDOM.standard_normal((4, 4, 1, 1)).astype(np.float32),
    **{name: np.abs(RANDOM.standard_normal(4)).astype(np.float32) + 1 for name in "stmv"},
}
BLOCK = """
    net "block": x, w, s, t, m, v -> y
    Conv(x, w) -> a  kernel=1
    SpatialBN(a, s, t, m, v) -> a  is_test=1
    Add(a, x) -> a
    Relu(a) -> y
"""


def block() -> Pair:
    return pair_of(BLOCK, WEIGHTS, {"x": (2, 4, 5, 5)})


@settings(max_examples=250)
@given(random_nets(most_operators=16, kinds=[*KINDS, *EVERYTHING]))
def test_random_nets_compute_the_same_and_a_second_run_changes_nothing(drawn: RandomNet) -> None:
    pair = pair_of_net(drawn.net, drawn.weights, {"x": drawn.shape})
    result = optimize(pair)
    assert_same_numbers(pair, result, drawn.feed(), **ROUNDING)
    report = Report()
    assert optimize(result, report=report) == result, report


@settings(max_examples=80)
@given(random_nets(most_operators=16, kinds=[*KINDS, *CAFFE2S]))
def test_caffe2_compatible_results_hold_only_caffe2s_operators(drawn: RandomNet) -> None:
    pair = pair_of_net(drawn.net, drawn.weights, {"x": drawn.shape})
    result = optimize(pair, caffe2_compatible=True)
    assert not any(op.domain for op in result.predict_net.op)
    assert not any(arg.t is not None for op in result.init_net.op for arg in op.arg)
    assert_same_numbers(pair, result, drawn.feed(), **ROUNDING)
    assert optimize(result, caffe2_compatible=True) == result


def test_a_residual_block_becomes_one_operator() -> None:
    result = optimize(block())
    assert operator_counts(result.predict_net) == {"armnet.FusedConv": 1}
    assert result.predict_net.external_input == ("x", "w_folded", "w_bias_folded")


def test_inputs_outputs_and_metadata_stay() -> None:
    pair = block().replace(meta={"labels": ["a", "b"]})
    result = optimize(pair)
    assert (result.inputs, result.outputs, result.meta) == (pair.inputs, pair.outputs, pair.meta)


def test_the_rewrites_can_be_made_one_by_one() -> None:
    pair, report = block(), Report()
    final = optimize(pair, report=report)
    feed = {"x": RANDOM.standard_normal((2, 4, 5, 5)).astype(np.float32)}
    for count in range(len(report.steps) + 1):
        partly = Report()
        result = optimize(pair, stop_after=count, report=partly)
        assert [step.pass_name for step in partly.steps] == [step.pass_name for step in report.steps[:count]]
        assert_same_numbers(pair, result, feed, **ROUNDING)
    assert result == final


def test_engines_are_set_on_operators_that_have_them() -> None:
    result = optimize(block(), "NNPACK,IM2COL")
    assert [op.engine for op in result.predict_net.op] == ["NNPACK,IM2COL"]
    result = optimize(pair_of('net "": x -> y\n Relu(x) -> y'), "IM2COL")
    assert [op.engine for op in result.predict_net.op] == [""]


def test_engines_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match=r"no operator has an engine 'WARP'; there are .*IM2COL"):
        optimize(block(), "IM2COL,WARP")


def test_operators_unknown_to_caffe2_cannot_be_made_compatible() -> None:
    foreign = pair_of('net "": x, c -> y\n If(c) -> y  then_net={\n onnx.Relu(x) -> y\n }')
    with pytest.raises(UsageError, match=r"onnx.Relu\(x\) -> y: Caffe2 has no such operator"):
        optimize(foreign, caffe2_compatible=True)


def test_weights_that_caffe2_cannot_hold_are_refused() -> None:
    pair = pair_of('net "": x, w -> y\n Add(x, w) -> y', {"w": np.ones(3, np.float16)})
    with pytest.raises(ExportError, match=r"'w'.*float16"):
        optimize(pair, caffe2_compatible=True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"stop_after": -1}, "stop_after must not be negative, got -1"),
        ({"shapes": {"z": (1, 2)}}, "no input 'z'; the net takes x"),
        ({"shapes": {"x": (2, 4, 5, 0)}}, r"input 'x': sizes must be positive, got \[2, 4, 5, 0\]"),
        ({"shapes": {"x": (2, 4, 5, 6)}}, r"input 'x' is \(2, 4, 5, 5\), shape \[2, 4, 5, 6\] does not fit"),
        ({"shapes": {"x": (2, 4)}}, "does not fit"),
    ],
)
def test_options_that_contradict_the_pair_are_refused(options: Dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        optimize(block(), **options)


def test_without_shapes_it_does_what_it_can_and_says_so() -> None:
    report = Report()
    result = optimize(pair_of(BLOCK, WEIGHTS), report=report)
    assert operator_counts(result.predict_net) == {"Conv": 1, "Add": 1, "Relu": 1}
    assert report.warnings == [
        "the shape of input 'x' is not known; what needs shapes is left as it is, unless "
        "--shape x=N,N,... gives an example"
    ]


def test_an_example_of_a_shape_stands_in_for_open_sizes() -> None:
    result = optimize(pair_of(BLOCK, WEIGHTS), shapes={"x": (1, 4, 8, 8)})
    assert operator_counts(result.predict_net) == {"armnet.FusedConv": 1}
    assert result.inputs[0].shape is None


def test_samples_larger_than_memory_are_not_tried() -> None:
    pair = pair_of('net "": x -> y\n Relu(x) -> y', shapes={"x": ("n", "a", "b", "c", "d", "e")})
    report = Report()
    optimize(pair, report=report)
    assert "a sample of input 'x' with [1, 32, 64, 96, 128, 160]" in report.notes[0]
    with pytest.raises(UsageError, match="give an example of its shape"):
        optimize(pair, accuracy=1e-3)
    assert optimize(pair, shapes={"x": (1, 2, 2, 2, 2, 2)}).predict_net == pair.predict_net


def test_an_unknown_operator_is_named_and_the_rest_optimised() -> None:
    net = BLOCK.replace("Relu(a) -> y", "Relu(a) -> a\n Mystery(a) -> b\n Relu(b) -> c\n Relu(c) -> y")
    report = Report()
    result = optimize(pair_of(net, WEIGHTS, {"x": (2, 4, 5, 5)}), report=report)
    assert operator_counts(result.predict_net) == {"armnet.FusedConv": 1, "Mystery": 1, "Relu": 2}
    assert report.warnings == ["shapes are not known behind Mystery(a) -> b: unknown operator type 'Mystery'"]


@pytest.mark.parametrize(
    "line",
    [
        "Reshape() -> y, s",
        "MaxPool() -> y",
        "SpatialBN(x, w, w, w) -> y",
        "MatMul(x) -> y",
        "If(x) -> y  then_net={\n Relu() -> y\n }",
    ],
)
def test_operators_without_the_blobs_that_they_need_are_refused(line: str) -> None:
    pair = pair_of(f'net "": x, w -> z\n {line}\n Conv(y, w) -> z  kernel=1', WEIGHTS, {"x": (2, 4, 5, 5)})
    with pytest.raises(ShapeError, match=r"\) -> y.*: takes .* inputs, got"):
        optimize(pair)


def test_state_that_the_net_keeps_stays_state() -> None:
    net = 'net "": x, s -> y\n Add(x, s) -> a\n Copy(a) -> s\n Dropout(a) -> y  is_test=1'
    pair = pair_of(net, shapes={"x": (2,), "s": (2,)})
    result = optimize(pair)
    assert [op.output for op in result.predict_net.op] == [("y",), ("s",)]


def test_a_pair_of_files_without_metadata(tmp_path: Any) -> None:
    pair = block()
    (tmp_path / "init_net.pb").write_bytes(pair.init_net.to_bytes())
    (tmp_path / "predict_net.pb").write_bytes(pair.predict_net.to_bytes())
    result = optimize(Pair.load(tmp_path), shapes={"x": (2, 4, 5, 5)})
    result.save(tmp_path / "optimised")
    assert Pair.load(tmp_path / "optimised") == result


@pytest.mark.parametrize("rows", [1, 2, 5, 200])
def test_indices_of_paranoid_runs_fit_into_the_table(rows: int) -> None:
    table = np.arange(4 * rows, dtype=np.float32).reshape(rows, 4)
    pair = pair_of('net "": i, table -> y\n Gather(table, i) -> a\n Tanh(a) -> y', {"table": table})
    report = Report()
    optimize(pair.replace(inputs=(TensorInfo("i", (3, 9), "int64"),)), paranoid=True, report=report)
    assert "before 2 steps; the outputs equal those of a run without a memory plan" in report.notes[-1]


def test_random_fills_stay_random() -> None:
    pair = pair_of('net "": x, w -> y\n Conv(x, w) -> a  kernel=1\n Relu(a) -> y', {}, {"x": (1, 2, 3, 3)})
    init = NetDef.from_text("XavierFill() -> w  shape=[2, 2, 1, 1]")
    pair = pair.replace(init_net=init, inputs=pair.inputs[:1])
    result = optimize(pair)
    assert result.init_net.op == init.op
    assert operator_counts(result.predict_net) == {"ConvRelu": 1}


def test_operators_move_to_save_memory_unless_told_not_to() -> None:
    net = """
        net "wide": x -> y
        Sigmoid(x) -> a
        Tanh(x) -> b
        Exp(x) -> c
        AveragePool(a) -> d  kernel=8  stride=8
        AveragePool(b) -> e  kernel=8  stride=8
        AveragePool(c) -> f  kernel=8  stride=8
        Sum(d, e, f) -> y
    """
    pair = pair_of(net, shapes={"x": [1, 4, 32, 32]})
    types = [[op.type for op in optimize(pair, keep_order=keep).predict_net.op] for keep in (True, False)]
    assert types[0] == [op.type for op in pair.predict_net.op]
    assert types[1][:2] == ["Sigmoid", "AveragePool"]
