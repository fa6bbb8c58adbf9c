"""pick_engines: forced engines, engines ruled out by the accuracy, measured engines, and the report of them all."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

import numpy as np
import pytest

from optimize import Report, optimize, pick_engines
from optimize.engines.accuracy import relative_error, results
from optimize.engines.error_budget import Budget, find_limits
from optimize.engines.measure import promising
from optimize.engines.measure_hints import open_hints
from optimize.engines.options import Option, Options, options_alone, options_of
from optimize.engines.sample_inputs import drawn
from optimize.engines.trials import Trials
from optimize.rewriting.shapes import sample_specs
from runtime_arm import Predictor
from runtime_arm.engines.conv import gemm
from runtime_arm.errors import UsageError
from runtime_arm.netdef import OperatorDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.engine_preferences import Preference
from runtime_arm.registry.kernel import Work
from tests.optimize.nets import pair_of

CHANNELS, SIZE, LAYERS = 64, 28, 4
SHAPE = (1, CHANNELS, SIZE, SIZE)


def convolutions(layers: int = LAYERS, shape: Any = SHAPE) -> Pair:
    """A chain of 3x3 convolutions, for which Winograd is faster."""
    rng = np.random.default_rng(5)
    weights = {f"w{i}": rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 24 for i in range(layers)}
    blobs = ["x", *(f"b{i}" for i in range(1, layers)), "y"]
    lines = [f"Conv({a}, w{i}) -> {b}  kernel=3  pad=1" for i, (a, b) in enumerate(zip(blobs, blobs[1:]))]
    return pair_of("\n ".join([f'net "": x, {", ".join(weights)} -> y', *lines]), weights, {"x": shape})


def engines_of(pair: Pair) -> List[str]:
    return [op.engine for op in pair.predict_net.op]


def running(pair: Pair, threads: int = 1) -> List[str]:
    with Predictor(pair, threads=threads) as predictor:
        return [step.engine for step in predictor.plan().steps if step.index >= 0]


def error_of(pair: Pair) -> float:
    """The relative error against direct sums."""
    direct = pair.replace(
        predict_net=pair.predict_net.replace(op=tuple(op.replace(engine="IM2COL") for op in pair.predict_net.op))
    )
    samples = [drawn(sample_specs(pair.inputs), seed) for seed in range(2)]
    return relative_error(results(direct, samples), results(pair, samples))


def test_operators_that_run_as_one_step_have_no_options_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: True)
    rng = np.random.default_rng(0)
    shapes = {"e_w": (96, 16, 1, 1), "f_w": (96, 1, 3, 3), "p_w": (16, 96, 1, 1), "y_w": (16, 16, 3, 3)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) / 9 for name, shape in shapes.items()}
    pair = pair_of(
        """net "": x, e_w, f_w, p_w, y_w -> y
        Conv(x, e_w) -> e  kernel=1
        Conv(e, f_w) -> f  kernel=3  pad=1  group=96
        Conv(f, p_w) -> p  kernel=1
        Conv(p, y_w) -> y  kernel=3  pad=1""",
        weights,
        {"x": (1, 16, 28, 30)},
    )
    with Predictor(pair, threads=1) as predictor:
        assert [step.op.type for step in predictor.plan().steps if step.index == 2] == ["SeparableBlock"]
    assert [one.place for one in options_of(pair, sample_specs(pair.inputs))] == [3]
    assert [one.place for one in options_alone(pair, sample_specs(pair.inputs))] == [0, 1, 2, 3]
    assert [op.type for op in pick_engines(pair, accuracy=1e-9).predict_net.op] == ["Conv"] * 4


def test_the_options_of_operators_alone_need_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = convolutions()
    specs = sample_specs(pair.inputs)
    planned = options_of(pair, specs)
    monkeypatch.delattr("optimize.engines.options.Predictor")
    alone = options_alone(pair, specs)
    assert [(one.place, one.open, one.refused) for one in alone] == [
        (one.place, one.open, one.refused) for one in planned
    ]


def test_blobs_that_the_net_overwrites_are_not_constant_for_options_alone() -> None:
    text = 'net "": x, w -> y, w\n Conv(x, w) -> y  kernel=3  pad=1\n Relu(w) -> w'
    pair = pair_of(text, {"w": np.ones((CHANNELS, CHANNELS, 3, 3), np.float32)}, {"x": SHAPE})
    specs = sample_specs(pair.inputs)
    state, planned = options_alone(pair, specs)[0], options_of(pair, specs)[0]
    assert (state.open, state.refused) == (planned.open, planned.refused)
    assert state.inputs[1] is not None
    assert state.inputs[1].value is None


def pooled() -> Pair:
    """Two convolutions and a pool, which runs as one step with the second convolution."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((64, 64, 3, 3)).astype(np.float32) / 24 for name in ("a_w", "b_w")}
    pair = pair_of(
        """net "": x, a_w, b_w -> y
        Conv(x, a_w) -> a  kernel=3  pad=1
        Conv(a, b_w) -> b  kernel=3  pad=1
        MaxPool(b) -> y  kernel=2  stride=2""",
        weights,
        {"x": SHAPE},
    )
    with Predictor(pair, threads=1) as predictor:
        assert [step.op.type for step in predictor.plan().steps if step.index == 1] == ["PooledConv"]
    return pair


def test_a_convolution_that_runs_as_one_step_with_its_pool_has_its_options() -> None:
    pair = pooled()
    first, second = options_of(pair, sample_specs(pair.inputs))
    assert (second.place, second.engine, second.open) == (1, first.engine, first.open)
    assert second.chosen == first.chosen
    assert engines_of(pick_engines(pair, accuracy=1e-9)) == ["!FFT,!WINOGRAD", "!FFT,!WINOGRAD", ""]


def test_a_convolution_that_runs_as_one_step_with_its_pool_is_measured() -> None:
    pair = pooled()
    assert [one.place for one in open_hints(pair, sample_specs(pair.inputs))] == [0, 1]
    tuning = pick_engines(pair, "measure", threads=1).tuning
    assert tuning is not None
    assert {"WINOGRAD:f2x2_3x3", "WINOGRAD:f4x4_3x3", "IM2COL"} <= set(tuning.measurements[0].seconds[1])


# Forced engines


def test_a_list_is_written_to_operators_that_have_one_of_its_engines() -> None:
    net = convolutions(1)
    assert engines_of(pick_engines(net, "NNPACK,IM2COL")) == ["NNPACK,IM2COL"]
    assert engines_of(pick_engines(net, "WINOGRAD:f2x2_3x3, IM2COL")) == ["WINOGRAD:f2x2_3x3,IM2COL"]
    assert engines_of(pick_engines(pair_of('net "": x -> y\n Relu(x) -> y'), "IM2COL")) == [""]


@pytest.mark.parametrize(
    ("engines", "options", "complaint"),
    [
        ("IM2COL,WARP", {}, r"no operator has an engine 'WARP'; there are .*IM2COL"),
        ("WINOGRAD:f9x9_3x3", {}, r"engine WINOGRAD has no variant 'f9x9_3x3'; there are f1x2_3x3, f2x2_3x3, f2x2_5x5"),
        ("IM2COL:fast", {}, r"engine IM2COL has no variant 'fast'; there are none"),
        ("auto,IM2COL", {}, r"'auto' cannot stand in a list"),
        ("measure,IM2COL", {}, r"'measure' cannot stand in a list"),
        ("IM2COL", {"accuracy": 1e-3}, "give one of the two"),
        ("auto", {"accuracy": 0.0}, "the accuracy must be positive, got 0"),
        ("auto", {"threads": 2}, "a number of threads can only be given if engines are measured"),
        ("measure", {"threads": 0}, "the number of threads must be positive, got 0"),
        ("", {}, "no engine is named"),
        ("IM2COL,!IM2COL", {}, "'IM2COL' is both asked for and ruled out"),
    ],
)
def test_contradictory_options_are_refused(engines: str, options: Dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        pick_engines(convolutions(1), engines, **options)


# Engines ruled out by the accuracy


def test_within_the_budget_the_runtime_chooses() -> None:
    pair, report = convolutions(), Report()
    assert pick_engines(pair, report=report) == pair
    assert report.error is not None
    assert 0 < report.error <= 1e-4
    assert report.error == pytest.approx(error_of(pair))


def test_an_error_that_cannot_show_is_not_reported() -> None:
    pair, report = convolutions(), Report()
    net = pair.predict_net
    hidden = (*net.op[:-1], net.op[-1].replace(output=("h",)), OperatorDef.of("Scale", ["h"], ["y"], scale=0.0))
    pick_engines(pair.replace(predict_net=net.replace(op=hidden)), report=report)
    assert report.error is None
    assert report.warnings == ["outputs are zero for random inputs, so errors of engines do not show"]


def test_a_tight_budget_rules_tiles_out_until_the_measured_error_fits() -> None:
    pair, report = convolutions(), Report()
    accuracy = error_of(pair) / 2
    result = pick_engines(pair, accuracy=accuracy, report=report)
    assert error_of(result) <= accuracy
    assert any("!WINOGRAD" in engine for engine in engines_of(result))
    assert report.steps_by_pass() == {"pick_engines": sum(1 for engine in engines_of(result) if engine)}
    assert not report.warnings


def test_a_budget_that_cannot_be_met_rules_out_all_it_can_and_warns() -> None:
    pair, report = convolutions(2), Report()
    folded = pick_engines(pair, accuracy=1e-12, plain=convolutions(3), report=report)
    assert set(engines_of(folded)) == {"!FFT,!WINOGRAD"}
    assert "WINOGRAD" not in running(folded)
    assert error_of(folded) == 0
    assert "outputs still differ by" in report.warnings[0]


def test_a_second_run_changes_nothing() -> None:
    pair = convolutions()
    for accuracy in (1e-12, error_of(pair) * 0.9, 1e-4):
        once = optimize(pair, accuracy=accuracy)
        report = Report()
        assert optimize(once, accuracy=accuracy, report=report) == once, report


def test_engines_are_ruled_out_step_by_step() -> None:
    pair, report = convolutions(), Report()
    final = optimize(pair, accuracy=1e-12, report=report)
    assert len(report.steps) == LAYERS
    for count in range(LAYERS + 1):
        partly = Report()
        result = optimize(pair, accuracy=1e-12, stop_after=count, report=partly)
        assert len(partly.steps) == count
        assert sum(1 for engine in engines_of(result) if engine) == count
    assert result == final


def test_a_net_that_cannot_be_tried_is_left_to_the_runtime() -> None:
    report = Report()
    pair = pair_of('net "": x -> y\n Mystery(x) -> y', shapes={"x": (1,)})
    assert pick_engines(pair, report=report) == pair
    assert "the error of engines is not known, as the net could not be tried" in report.notes[0]
    with pytest.raises(UsageError, match="the shape of input 'x' is not known"):
        pick_engines(pair_of('net "": x -> y\n Relu(x) -> y'), accuracy=1e-3)


def test_a_net_whose_table_of_positions_is_short_is_tried_on_a_short_sample() -> None:
    net = """
        net "": x, p, zero, one, two -> y
        onnx.Shape(x) -> s
        onnx.Slice(s, one, two) -> t
        onnx.Slice(p, zero, t) -> q
        Add(x, q) -> y
    """
    weights = {"p": np.arange(64, dtype=np.float32)}
    weights.update((name, np.array([at], np.int64)) for at, name in enumerate(["zero", "one", "two"]))
    report, trials = Report(), Trials({})
    pair = pair_of(net, weights, shapes={"x": ("n", "t")})
    pick_engines(pair, report=report, trials=trials)
    assert report.notes == []
    assert trials.specs["x"].shape == (1, 43)
    assert trials.outputs(pair, trials.specs) is not None


ERRORS = {0: 60.0, 1: 13.0, 2: 13.0, 3: 1.0, 4: 60.0}
GAINS = {0: 5.0, 1: 9.0, 2: 1.0, 4: 6.0}


@pytest.mark.parametrize(
    ("most", "free"), [(1000, {0, 1, 2, 4}), (100, {1, 2, 4}), (62, {1, 2}), (17, {1}), (2, set())]
)
def test_limits_fall_where_the_least_is_gained(most: float, free: Any) -> None:
    def fits(limits: Mapping[int, float]) -> bool:
        return sum(min(error, limits.get(place, error)) for place, error in ERRORS.items()) <= most

    limits = find_limits(ERRORS, GAINS, fits)
    assert {place for place, error in ERRORS.items() if error > 1 and limits.get(place, error) == error} == free
    assert fits(limits) or most < 5


def test_errors_are_relative_to_the_largest_magnitude_of_an_output() -> None:
    def made(*values: float) -> List[Dict[str, Any]]:
        return [{"y": np.array(values, np.float32), "label": np.array([1])}]

    assert relative_error(made(1, -4), made(1.5, -4)) == 0.125
    assert relative_error(made(0, 0), made(0, 0.5)) == 0.5
    assert relative_error(made(1, np.nan), made(1, np.nan)) == 0
    assert relative_error(made(1, np.inf), made(1, 2)) == np.inf
    assert relative_error(made(), made()) == 0


def test_errors_of_other_passes_count_against_the_budget() -> None:
    budget = Budget(convolutions(3), convolutions(2), Trials(sample_specs(convolutions(2).inputs)), 1e-4)
    assert budget.error(convolutions(2)) > 0.1
    same = Budget(convolutions(2), convolutions(2), Trials(sample_specs(convolutions(2).inputs)), 1e-4)
    assert same.error(convolutions(2)) < 1e-4


# The report


def test_every_choice_is_reported() -> None:
    report = Report()
    pick_engines(convolutions(1), report=report)
    (choice,) = report.engines
    assert choice.operator == "Conv(x, w0) -> y"
    assert choice.engine.startswith("WINOGRAD:f")
    assert {"IM2COL", "WINOGRAD:f2x2_3x3", "WINOGRAD:f4x4_3x3"} <= choice.options.keys()
    assert choice.options["IM2COL"]["error"] == 1 < choice.options[choice.engine]["error"]
    assert choice.options[choice.engine]["multiplies"] < choice.options["IM2COL"]["multiplies"]
    assert choice.refused["POINTWISE"] == "the kernel must be 1, got [3, 3]"
    assert "POINTWISE refused: the kernel must be 1, got [3, 3]" in str(report)


def test_forced_engines_that_cannot_run_are_reported_with_the_reason() -> None:
    report = Report()
    pick_engines(convolutions(1), "DEPTHWISE,IM2COL", report=report)
    (choice,) = report.engines
    assert choice.engine == "IM2COL"
    assert "every channel must be a group" in choice.refused["DEPTHWISE"]


@pytest.mark.parametrize("small", [True, False])
def test_options_that_another_machine_may_choose_are_ruled_out_too(
    small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemm, "multiplies_small", lambda: small)
    pair = convolutions(1)
    (one,) = options_of(pair, sample_specs(pair.inputs))
    limited = one.within(10).engine.split(",")
    assert {"!WINOGRAD:f2x4_3x3", "!WINOGRAD:f4x4_3x3"} <= set(limited)
    assert "!WINOGRAD:f2x2_3x3" not in limited


def test_an_option_is_ruled_out_as_a_whole_or_by_variant() -> None:
    options = [
        Option(Preference("WINOGRAD", "f2x2_3x3"), Work(1, 0, 4.0)),
        Option(Preference("WINOGRAD", "f4x4_3x3"), Work(1, 0, 60.0)),
        Option(Preference("IM2COL"), None),
    ]
    one = Options(0, OperatorDef.of("Conv", ["x"], ["y"], engine="NNPACK"), [], "WINOGRAD", options, {}, options[0])
    assert one.within(100).engine == "NNPACK"
    assert one.within(10).engine == "NNPACK,!WINOGRAD:f4x4_3x3"
    assert one.within(1).engine == "NNPACK,!WINOGRAD"


# Measured engines


def test_measured_engines_are_kept_for_these_shapes_and_threads_and_used() -> None:
    pair, report, told = convolutions(2), Report(), []
    result = pick_engines(pair, "measure", threads=1, report=report, progress=lambda *what: told.append(what))
    assert result.predict_net == pair.predict_net
    assert result.tuning is not None
    (measurement,) = result.tuning.measurements
    assert (measurement.shapes, measurement.threads) == ({"x": SHAPE}, 1)
    for place in (0, 1):
        timed = measurement.seconds[place]
        assert {"IM2COL", "WINOGRAD:f2x2_3x3", "WINOGRAD:f4x4_3x3"} <= timed.keys()
        assert all(seconds > 0 for seconds in timed.values())
    assert all(engine in measurement.seconds[place] for place, engine in measurement.engines.items())
    assert told[-1][1] == told[-1][2] > 0
    assert report.engines[0].options["IM2COL"]["seconds"].keys() == {1}
    assert "threads=1: " in report.notes[0]


def test_measured_engines_stay_within_the_budget() -> None:
    result = pick_engines(convolutions(2), "measure", threads=1, accuracy=1e-12)
    assert result.tuning is not None
    assert not any("WINOGRAD" in engine for engine in result.tuning.measurements[0].engines.values())
    assert not any("WINOGRAD" in engine for timed in result.tuning.measurements[0].seconds.values() for engine in timed)


def test_the_most_promising_options_are_tried_first_for_all_operators() -> None:
    options = options_of(convolutions(3), sample_specs(convolutions(3).inputs))
    preferences = {str(option.preference): option.preference for option in options[0].open}
    chosen = options[0].chosen
    assert chosen is not None
    faster, fastest = [preference for preference in preferences.values() if preference != chosen.preference][:2]
    timings = {place: {chosen.preference: 3.0, faster: 2.0, fastest: 1.0} for place in range(3)}
    first, second = promising(options, timings)
    assert [option.preference for option in first.values()] == [fastest] * 3
    assert [option.preference for option in second.values()] == [faster] * 3
    assert promising(options, {0: {chosen.preference: 1.0, faster: 2.0}, 1: {faster: 0.5}}) == []


def test_a_net_that_another_pass_changes_loses_its_tuning() -> None:
    pair = convolutions(1)
    assert optimize(pick_engines(pair, "measure", threads=1)).tuning is not None
    net = pair.predict_net
    ops = (net.op[0].replace(output=("h",)), OperatorDef.of("Relu", ["h"], ["y"]))
    assert optimize(pick_engines(pair.replace(predict_net=net.replace(op=ops)), "measure", threads=1)).tuning is None


def test_options_follow_the_shapes() -> None:
    pair = convolutions(1, ("batch", CHANNELS, None, None))
    with pytest.raises(UsageError, match="does not fit"):
        optimize(pair, shapes={"x": (1, 3, 5, 5)})
    small = options_of(pair, {"x": sample_specs(convolutions(1, (1, CHANNELS, 1, 1)).inputs)["x"]})
    large = options_of(pair, sample_specs(pair.inputs))
    assert str(small[0].chosen and small[0].chosen.preference) == "IM2COL"
    assert str(large[0].chosen and large[0].chosen.preference).startswith("WINOGRAD")
