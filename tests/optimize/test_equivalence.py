"""optimize() compares its result with the plain net, and names the step that changed what the net computes."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from optimize import Report, equivalence, optimize, pipeline
from optimize.engines.accuracy import difference
from optimize.equivalence import SMALL
from optimize.rewriting.program import Match, Program, Rewrite
from optimize.rewriting.rewrite import Pass, Rule
from runtime_arm.errors import OptimizationError
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import QuantizedTensor
from tests.optimize.nets import pair_of

Break = Callable[..., None]


def pass_of(type: str, rewrite: Callable[[Program, Match], Rewrite]) -> Pass:
    def find(program: Program, start: int) -> Iterator[Match]:
        places = range(start, len(program.net.op))
        return (Match((place,)) for place in places if program.net.op[place].full_type == type)

    return Pass("broken", (Rule(find, rewrite),))


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Break:
    """A function that adds a wrong pass, which replaces operators of one type by operators of another."""

    def add(type: str, instead: OperatorDef, last: bool = False) -> None:
        def rewrite(program: Program, match: Match) -> Rewrite:
            (op,) = program.operators(match)
            return Rewrite((instead.replace(input=op.input[: len(instead.input)], output=op.output),))

        one = pass_of(type, rewrite)
        monkeypatch.setattr(pipeline, "ALL", (*pipeline.ALL, one) if last else (one, *pipeline.ALL))

    return add


def test_a_changed_value_is_refused_and_the_step_named(broken: Break) -> None:
    pair = pair_of(
        'net "": x -> y\n Copy(x) -> a\n Sigmoid(a) -> b\n Relu(b) -> c\n Tanh(c) -> y', shapes={"x": (2, 3)}
    )
    broken("Tanh", OperatorDef.of("Exp", ["x"], ["y"]))
    with pytest.raises(
        OptimizationError, match=r"^step 1, broken of Tanh\(c\) -> y, .* output 'y' differs by .* --stop-after 0 "
    ):
        optimize(pair)
    assert optimize(pair, stop_after=0).predict_net.op[-1].type == "Tanh"


def test_the_first_wrong_step_of_many_is_named(broken: Break) -> None:
    text = 'net "": x -> y\n' + "".join(f"Copy(b{i}) -> b{i + 1}\n" for i in range(9)) + "Tanh(b9) -> y"
    pair = pair_of(text.replace("b0)", "x)"), shapes={"x": (2, 3)})
    broken("Tanh", OperatorDef.of("Exp", ["x"], ["y"]), last=True)
    with pytest.raises(OptimizationError, match=r"^step 10, broken of Tanh"):
        optimize(pair)


def test_a_changed_shape_is_refused_if_shapes_are_known_only_after_running(broken: Break) -> None:
    net = 'net "": x -> y\n onnx.NonZero(x) -> a\n Cast(a) -> b  to=1\n FlattenToVec(b) -> y'
    broken("FlattenToVec", OperatorDef.of("Flatten", ["x"], ["y"]))
    with pytest.raises(OptimizationError, match=r"output 'y' is float32\[2, 6\] instead of float32\[12\]"):
        optimize(pair_of(net, shapes={"x": (2, 3)}))


def test_a_changed_dtype_is_refused(broken: Break) -> None:
    net = 'net "": x -> y\n onnx.NonZero(x) -> a\n Cast(a) -> b  to=1\n EnsureCPUOutput(b) -> y'
    broken("EnsureCPUOutput", OperatorDef.of("Cast", ["x"], ["y"], to=13))
    with pytest.raises(OptimizationError, match=r"step 1, broken of EnsureCPUOutput.* is float64\[2, 6\] instead of"):
        optimize(pair_of(net, shapes={"x": (2, 3)}))


def test_a_rewrite_that_holds_for_one_size_only_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass replaces a mean by a sum, scaled for the number of elements in the first sample."""
    length = SMALL[1] + SMALL[2]

    def rewrite(program: Program, match: Match) -> Rewrite:
        (op,) = program.operators(match)
        total = OperatorDef.of("ReduceSum", op.input, ["total"], axes=[1], keepdims=1)
        scaled = OperatorDef.of("Mul", ["total", "part"], op.output)
        return Rewrite((total, scaled), weights={"part": np.full((), 1 / length, np.float32)})

    monkeypatch.setattr(pipeline, "ALL", (pass_of("ReduceMean", rewrite),))
    net = 'net "": x -> y\n ReduceMean(x) -> y  axes=[1]  keepdims=1'
    with pytest.raises(OptimizationError, match="step 1, broken of ReduceMean"):
        optimize(pair_of(net, shapes={"x": (2, "t", 3)}))
    assert optimize(pair_of(net, shapes={"x": (2, length, 3)})).predict_net.op[0].type == "ReduceSum"


@pytest.mark.parametrize(("shape", "axis"), [(("n", 3), 0), ((2, "t"), 1)])
def test_a_rewrite_that_holds_unless_there_are_no_elements_is_refused(broken: Break, shape: Any, axis: int) -> None:
    """The largest of positive numbers is its own magnitude; that of none is minus infinity."""
    net = 'net "": x, axes -> y\n Sigmoid(x) -> a\n onnx.ReduceMax(a, axes) -> b\n Abs(b) -> y'
    broken("Abs", OperatorDef.of("Copy", ["x"], ["y"]))
    with pytest.raises(OptimizationError, match="broken of Abs"):
        optimize(pair_of(net, {"axes": np.array([axis])}, {"x": shape}))


def test_a_result_that_refuses_what_has_no_elements_is_noted(broken: Break) -> None:
    net = 'net "": x, axes -> y\n Sigmoid(x) -> a\n Abs(a) -> b\n onnx.ReduceMax(b, axes) -> y'
    broken("Abs", OperatorDef.of("MaxPool", ["x"], ["y"], kernel=1))
    report = Report()
    optimize(pair_of(net, {"axes": np.array([2])}, {"x": (1, 2, "h", 3)}), report=report)
    assert "with inputs of no elements it refuses what the plain net takes: MaxPool" in report.notes[0]


@pytest.mark.parametrize("trips", [None, 2**63 - 1, 9])
def test_a_loop_that_may_never_end_of_no_elements_is_not_tried_with_none(trips: Any) -> None:
    """The sum of no elements stays below the limit."""
    body = (
        'net "": i, c, v -> d, w\n onnx.Add(v, v) -> w\n onnx.ReduceSum(w) -> s  keepdims=0\n onnx.Less(s, most) -> d'
    )
    count = '""' if trips is None else "trips"
    net = (
        f'net "": x, most, goes, trips -> y\n onnx.Exp(x) -> a\n onnx.Loop({count}, goes, a) -> y  body={{\n{body}\n}}'
    )
    weights = {"most": np.float32(99), "goes": np.array(True), "trips": np.int64(0 if trips is None else trips)}
    report = Report()
    optimize(pair_of(net, weights, {"x": ("n", 3)}), report=report)
    noted = any("inputs of no elements, with which a loop may never end" in note for note in report.notes)
    assert noted == (trips != 9)


def test_a_result_that_refuses_valid_inputs_is_refused(broken: Break) -> None:
    net = 'net "": x -> y\n onnx.NonZero(x) -> a\n Cast(a) -> b  to=1\n Relu(b) -> y'
    broken("Relu", OperatorDef.of("Squeeze", ["x"], ["y"], dims=[0]))
    with pytest.raises(OptimizationError, match="it refuses what the plain net takes: Squeeze"):
        optimize(pair_of(net, shapes={"x": (2, 3)}))


def chaotic(times: int) -> Pair:
    """A normalisation that is folded, and numbers doubled modulo 1 so often that their last bits decide."""
    doubling = "".join(f"Add(v{i}, v{i}) -> t{i}\n onnx.Mod(t{i}, one) -> v{i + 1}  fmod=1\n" for i in range(times))
    net = f'net "": x, w, s, t, one -> y\n Conv(x, w) -> a  kernel=1\n AffineChannel(a, s, t) -> v0\n {doubling}'
    rng = np.random.default_rng(0)
    weights: Dict[str, Any] = {
        "w": rng.standard_normal((8, 8, 1, 1)),
        "s": rng.uniform(1, 2, 8),
        "t": rng.uniform(0, 1, 8),
    }
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    net += f"Relu(v{times}) -> y"
    return pair_of(net, {**weights, "one": np.ones((), np.float32)}, {"x": (1, 8, 5, 5)})


def test_rounding_that_the_net_amplifies_is_not_blamed_on_a_step() -> None:
    report = Report()
    result = optimize(chaotic(22), report=report)
    assert report.steps_by_pass()["fold_batch_norm"] == 1
    assert len(result.predict_net.op) < len(chaotic(22).predict_net.op)


def test_small_weights_are_changed_if_they_are_multiplied_and_limits_are_not() -> None:
    """Quantised inputs hide changes of inputs, so that a net of small layers had no rounding at all."""
    weights = {"w": np.full((2, 1, 1, 1), 0.7, np.float32), "low": np.full((2, 1, 1), 0.3, np.float32)}
    text = 'net "": x, w, low -> y\n Conv(x, w) -> a  kernel=1  group=2\n onnx.Max(a, low) -> y'
    pair = pair_of(text, weights, {"x": (1, 2, 3, 3)})
    changed = run_init_net(equivalence._with_changed_weights(pair, np.random.default_rng(0)).init_net)
    assert (changed["w"] != weights["w"]).any()
    assert_each_close(changed["w"], weights["w"])
    np.testing.assert_array_equal(changed["low"], weights["low"])


def test_the_effect_of_rounding_is_measured_until_it_explains_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: List[int] = []
    changed = equivalence._with_changed_weights

    def counted(*given: Any) -> Pair:
        seeds.append(len(seeds))
        return changed(*given)

    monkeypatch.setattr(equivalence, "_with_changed_weights", counted)
    optimize(chaotic(22))
    assert seeds == [0]
    monkeypatch.setattr(equivalence, "BEYOND_ROUNDING", 0.0)
    with pytest.raises(OptimizationError, match="fold_batch_norm"):
        optimize(chaotic(22))
    assert len(seeds) == 1 + equivalence.CHANGES


def shuffled() -> Pair:
    """A normalisation that is folded, an engine that rounds, and numbers in the order of others that hardly differ."""
    net = """net "": x, w, s, t, other -> y
        Conv(x, w) -> a  kernel=3  pad=1
        AffineChannel(a, s, t) -> b
        onnx.Flatten(b) -> c  axis=0
        TopK(c) -> top, places  k=25088
        Gather(other, places) -> y  axis=1"""
    rng = np.random.default_rng(0)
    weights: Dict[str, Any] = {
        "w": rng.standard_normal((32, 32, 3, 3)),
        "s": rng.uniform(1, 2, 32),
        "t": rng.uniform(0, 1, 32),
        "other": rng.standard_normal((1, 25088)),
    }
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    return pair_of(net, weights, {"x": (1, 32, 28, 28)})


def test_what_rounding_does_to_inputs_is_tried_first_where_it_was_tried_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no further plan of the plain net. What that does not explain is measured as ever."""
    versions: List[int] = []
    changed = equivalence._with_changed_weights

    def counted(*given: Any) -> Pair:
        versions.append(len(versions))
        return changed(*given)

    monkeypatch.setattr(equivalence, "_with_changed_weights", counted)
    report = Report()
    optimize(shuffled(), report=report)
    assert report.steps_by_pass()["fold_batch_norm"] == 1
    assert versions == []
    monkeypatch.setattr(equivalence, "BEYOND_ROUNDING", 0.0)
    with pytest.raises(OptimizationError, match="fold_batch_norm"):
        optimize(shuffled())
    assert len(versions) == equivalence.CHANGES


def test_random_outputs_are_compared_by_dtype_and_rank() -> None:
    report = Report()
    optimize(
        pair_of('net "": x -> y\n Dropout(x) -> a, m  is_test=0\n Relu(a) -> y', shapes={"x": (20, 30)}), report=report
    )
    assert "of y no values were compared: they differ from run to run" in report.notes


def test_randomly_filled_weights_are_the_same_in_both_nets() -> None:
    pair = pair_of('net "": x, w -> y\n Conv(x, w) -> a  kernel=1\n Relu(a) -> y', {}, {"x": (1, 2, 3, 3)})
    init = NetDef.from_text("XavierFill() -> w  shape=[2, 2, 1, 1]")
    report = Report()
    optimize(pair.replace(init_net=init, inputs=pair.inputs[:1]), report=report)
    assert not report.notes


def test_the_report_says_why_nothing_was_compared() -> None:
    report = Report()
    optimize(pair_of('net "": x -> y\n Copy(x) -> a\n Relu(a) -> y'), report=report)
    assert "the shape of input 'x' is not known" in report.notes[-1]
    assert report.notes[-1].startswith("only shapes and dtypes of results were compared with the plain net's: ")


def test_a_changed_element_of_a_sequence_is_refused(broken: Break) -> None:
    pair = pair_of('net "": x -> y\n Tanh(x) -> a\n onnx.SequenceConstruct(x, a) -> y', shapes={"x": (2, 3)})
    report = Report()
    optimize(pair, report=report)
    assert not report.notes
    broken("Tanh", OperatorDef.of("Exp", ["x"], ["y"]))
    with pytest.raises(OptimizationError, match=r"broken of Tanh\(x\) -> a, .* output 'y' differs by "):
        optimize(pair)


def sequence(*elements: Any) -> np.ndarray:
    held = np.empty(len(elements), object)
    for place, element in enumerate(elements):
        held[place] = np.array(element, np.float32)
    return held


@pytest.mark.parametrize(
    ("wanted", "actual", "expected"),
    [
        (sequence([1, 4], [2]), sequence([1, 4], [2]), 0.0),
        (sequence([1, 4], [2]), sequence([1, 3], [2]), 0.25),
        (sequence([1, 4], [2]), sequence([1, 4], [[2]]), np.inf),
        (np.ones((1, 4)), np.ones((1, 1, 4)), np.inf),
        (np.ones(4, np.float32), np.ones(4), np.inf),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), 0.0),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf]), np.inf),
        (np.array([1.0, np.inf]), np.array([1.0, np.nan]), np.inf),
        (np.array([1.0, 4.0]), np.array([1.0, 3.0]), 0.25),
        (np.array([1.0, 4.0]), np.array([1.0, np.inf]), np.inf),
        (np.array([2, 4]), np.array([2, 5]), 0.25),
        (np.array([True]), np.array([False]), 1.0),
        (np.array(["a"], object), np.array(["b"], object), np.inf),
        (np.array(["a"], object), np.array(["a"], object), 0.0),
        (QuantizedTensor(np.ones(2, np.int8), 0.5, 1), QuantizedTensor(np.ones(2, np.int8), 0.5, 1), 0.0),
        (QuantizedTensor(np.ones(2, np.int8), 0.5, 1), QuantizedTensor(np.ones(2, np.int8), 0.5, 2), np.inf),
        (np.ones(2), None, np.inf),
        (None, None, 0.0),
        ([np.ones(2), np.full(2, 4.0)], [np.ones(2), np.full(2, 3.0)], 0.25),
        ([np.ones(2)], [np.ones(2), np.ones(2)], np.inf),
        ([np.ones(2)], np.ones(2), np.inf),
        ([], [], 0.0),
    ],
)
def test_how_far_results_are_apart(wanted: Any, actual: Any, expected: float) -> None:
    assert difference(wanted, actual) == expected
