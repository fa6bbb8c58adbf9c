"""Compares an optimised pair with the plain one: no step may change what the net computes.

The names, order, shapes, dtypes and values of all outputs are compared on random inputs, for two choices of the open
sizes. Values may differ by rounding. If they differ by more than the tolerance, the effect of rounding is measured on
the plain net: its inputs and weights are changed in their last bits. A larger difference is a bug in armnet; it raises
an error that names the first step that causes it. The report says what could not be compared, and why.

Chosen engines may round more than direct sums. ``pick_engines`` keeps them within the accuracy. Here, results that
differ are compared again with direct sums, so that engines cannot be the cause.
"""

from __future__ import annotations

import warnings
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from optimize.engines.accuracy import TOLERANCE, Feeds, difference
from optimize.engines.error_budget import directly
from optimize.engines.options import options_alone
from optimize.engines.sample_inputs import drawn, in_last_bits, taken
from optimize.engines.trials import MOST_WORK, Trial, Trials, work_of
from optimize.rewriting.program import Program
from optimize.rewriting.report import Report, Step
from optimize.rewriting.shapes import LARGEST_SAMPLE, OTHER, STEP, infer_more, sample_specs
from optimize.rewriting.single_assignment import single_assignment
from optimize.rewriting.weights import Weights
from runtime_arm.errors import ArmnetError, OptimizationError, first_line
from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import NetDef, OperatorDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.randomness import random_operator
from runtime_arm.registry.schema import find
from runtime_arm.registry.specs import QuantizedTensor, TensorSpec

CHANGES = 3  # changed versions of the plain net that are run to measure the effect of rounding
BEYOND_ROUNDING = 32.0  # a difference this many times as large as the effect of those changes is not rounding
SMALLEST_CHANGED = 16  # elements; smaller weights are left alone, since they may be limits or sizes, unless they are
# what an operator multiplies by and adds up
# Open sizes of a sample, as (first, other, step): ``first`` for axis 0, ``other + step * axis`` for the other axes. The
# first two choices that the plain net accepts are run.
SMALL, ODD, USUAL = (1, 64, 32), (3, 37, 6), (1, OTHER, STEP)
SAMPLES = 2
EMPTY = (0, 64, 32), (1, 0, 0)  # also tried: an empty batch, and a length of 0, if the plain net takes them
MOST_TRIPS = 1 << 30  # exporters give a loop that its condition ends a larger number


class Steps(NamedTuple):
    """The steps that made the optimised pair; ``after(n)`` is the pair after the first n steps."""

    made: Sequence[Step]
    after: Callable[[int], Pair]


class _Sample(NamedTuple):
    """Inputs, the plain net's outputs for them, the names of the outputs that differ from run to run, the bound below
    which integers were drawn, and the trial that showed the outputs, if it was one."""

    feeds: Feeds
    outputs: Dict[str, Any]
    random: Sequence[str]
    below: int
    trial: Optional[Trial] = None


Outputs = Union[str, Dict[str, Any]]  # of a run, or why it was refused
Specs = Mapping[str, TensorSpec]  # of the inputs, by name


def require_equal(
    declared: Sequence[TensorInfo],
    plain: Pair,
    result: Pair,
    program: Program,
    steps: Steps,
    report: Report,
    trials: Trials,
    like: Optional[Pair] = None,
) -> None:
    """OptimizationError, naming the first step that changes a result, unless both pairs compute the same.

    declared: the inputs with their open sizes, for which ``plain`` may have example shapes. program: that of the plain
    pair, before any step. trials: what both showed before, which need not be computed again. like: a pair whose plan
    tells how much work a run of ``plain`` is, if the plan of ``plain`` itself does not.
    """
    both = _Both(plain, result, steps, report, like)
    both.require(lambda pair: _why_inferred_otherwise(program, pair), both.result)
    refusals: List[str] = []
    compared = 0
    for specs in _choices(declared, both.plain, program, refusals, trials):
        sample = both.sample(specs, refusals, trials)
        if sample is None:
            continue
        shown = trials.outputs(both.result, specs, sample.below)
        both.require_outputs(specs, sample, _outputs(both.result, sample.feeds) if shown is None else shown)
        if sample.random and not compared:
            report.notes.append(f"of {', '.join(sample.random)} no values were compared: they differ from run to run")
        compared += 1
        if compared == SAMPLES:
            break
    if compared and _may_never_end(program.net, program.weights):
        report.notes.append("nothing was compared for inputs of no elements, with which a loop may never end")
    elif compared:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing are NaN
            for specs in _empty_choices(declared, program):
                both.require_outputs_without_elements(specs)
    else:
        note = f"only shapes and dtypes of results were compared with the plain net's: {refusals[0]}"
        report.notes += [note] if note not in report.notes else []


class _Both:
    """The plain net and the net after the steps, with the same weights if an init_net draws them at random."""

    def __init__(self, plain: Pair, result: Pair, steps: Steps, report: Report, like: Optional[Pair]):
        self._freeze = _frozen(plain)
        self.plain, self.result = self._freeze(plain), self._freeze(result)
        self._steps, self._report, self._like = steps, report, like or self.plain

    def require(self, why: Callable[[Pair], Optional[str]], pair: Optional[Pair] = None) -> None:
        """OptimizationError, naming a step, if ``why`` faults the pair, by default the one after all steps."""

        def why_after(count: int) -> Optional[str]:
            return why(self._freeze(self._steps.after(count)))

        first = why_after(len(self._steps.made)) if pair is None else why(pair)
        if first:
            raise _error(first, self._steps, why_after)

    def sample(self, specs: Specs, refusals: List[str], trials: Trials) -> Optional[_Sample]:
        """The sample that a trial showed, else a new one; None, with the reason in ``refusals``, if there is none."""
        known = None if random_operator(self.plain.predict_net) else trials.outputs(self.plain, specs)
        trial = trials.find(self.plain)
        if known is None or trial is None:
            return _sample(self.plain, specs, refusals, self._like)
        return _Sample(drawn(specs, below=trial.below), known, (), trial.below, trial)

    def require_outputs(self, specs: Specs, sample: _Sample, outputs: Outputs) -> None:
        """OptimizationError unless the outputs of the result are the sample's, or rounding explains why not."""
        if _why_other_results(sample, outputs, dict.fromkeys(sample.outputs, TOLERANCE)):
            self._require_rounding_alone(specs, sample, outputs)

    def require_outputs_without_elements(self, specs: Specs) -> None:
        """The same for a batch or a length of 0, which the plain net may refuse. A refusal is noted."""
        sample = _sample(self.plain, specs, [], self._like)
        if sample is None:
            return
        outputs = _outputs(self.result, sample.feeds)
        if isinstance(outputs, str):
            self._report.notes.append(f"with inputs of no elements {outputs}")
        else:
            self.require_outputs(specs, sample, outputs)

    def _require_rounding_alone(self, specs: Specs, sample: _Sample, outputs: Outputs) -> None:
        """OptimizationError unless rounding explains why the outputs of the result differ.

        The plain net runs with direct sums; the net after the steps does, too, if the outputs differ by more.
        """
        trial = sample.trial
        direct = directly(self.plain, options_alone(self.plain, specs) if trial is None else trial.options)
        if trial is None or not trial.direct:
            sample = sample._replace(outputs=_run(direct, sample.feeds))
        limits: Mapping[str, float] = {}
        for limits in _limits(direct, sample):
            if not _why_other_results(sample, outputs, limits):
                break
        else:
            self.require(partial(_why_beyond, limits, sample, specs))
        loose = [name for name, limit in limits.items() if not np.isfinite(limit)]
        if loose:
            self._report.notes.append(
                f"the values of {', '.join(loose)} were not compared: the last bits of inputs decide over them"
            )


def _error(first: str, steps: Steps, why: Callable[[int], Optional[str]]) -> OptimizationError:
    """The error that names the first step that changes results, found by bisection."""
    good, bad, reason = 0, len(steps.made), first
    while bad - good > 1:
        middle = (good + bad) // 2
        found = why(middle)
        good, bad, reason = (good, middle, found) if found else (middle, bad, reason)
    if not bad:
        return OptimizationError(f"{reason}, without any step: a bug of armnet")
    step = steps.made[bad - 1]
    return OptimizationError(
        f"step {step.number}, {step.pass_name} of {'; '.join(step.before) or 'the weights'}, changes what the net "
        f"computes: {reason}. This is a bug of armnet; --stop-after {step.number - 1} leaves it and all behind it out"
    )


# What is compared


def _why_inferred_otherwise(program: Program, pair: Pair) -> Optional[str]:
    """How the names and known shapes and dtypes of the outputs differ from the plain program's; None if they agree."""
    wanted, actual = program.net.external_output, pair.predict_net.external_output
    if wanted != actual:
        return f"the outputs are {', '.join(actual)} instead of {', '.join(wanted)}"
    net, weights = single_assignment(pair.predict_net), Weights(pair.init_net)
    constants = {name: weights.spec(name) for op in net.op for name in op.reads() if name in weights}
    for known in program.known_specs:
        inputs = {info.name: known.get(info.name) for info in pair.inputs}
        found, stops = infer_more(net, {**constants, **inputs})
        for name in wanted:
            before, after = known.get(name), found.get(name)
            if before is not None and after is not None and before != after:
                return f"output {name!r} is {after} instead of {before}"
            refused = next((stop.reason for stop in stops.values() if stop.refused), None)
            if before is not None and after is None and refused:
                return f"output {name!r} is not made: {refused}"
    return None


def _why_other_results(sample: _Sample, outputs: Outputs, limits: Mapping[str, float]) -> Optional[str]:
    """How the outputs differ from the sample's; None if they differ by no more than the limits."""
    if isinstance(outputs, str):
        return outputs
    if list(outputs) != list(sample.outputs):
        return f"the outputs are {', '.join(outputs)} instead of {', '.join(sample.outputs)}"
    for name, wanted in sample.outputs.items():
        if _form(wanted) != _form(outputs[name]):
            return f"output {name!r} is {_described(outputs[name])} instead of {_described(wanted)}"
        far = 0.0 if name in sample.random else difference(wanted, outputs[name])
        if far > limits[name]:
            return f"output {name!r} differs by {far:.2g} of its largest magnitude"
    return None


def _form(output: Any) -> object:
    """The properties of an output that rounding cannot change: its number of dimensions and its dtype."""
    if isinstance(output, QuantizedTensor):
        return "quantised", _form(output.values)
    return (output.ndim, output.dtype) if isinstance(output, np.ndarray) else type(output)


def _described(output: Any) -> str:
    values = output.values if isinstance(output, QuantizedTensor) else output
    return f"{values.dtype.name}{list(values.shape)}" if isinstance(values, np.ndarray) else type(output).__name__


def _why_beyond(limits: Mapping[str, float], sample: _Sample, specs: Specs, pair: Pair) -> Optional[str]:
    """How the outputs of a pair by direct sums differ from the sample's; None if they are within the limits."""
    try:
        direct = directly(pair, options_alone(pair, specs))
    except ArmnetError as error:
        return f"it refuses what the plain net takes: {first_line(error)}"
    return _why_other_results(sample, _outputs(direct, sample.feeds), limits)


# The samples


def _choices(
    declared: Sequence[TensorInfo], plain: Pair, program: Program, refusals: List[str], trials: Trials
) -> Iterator[Specs]:
    """The input specs to try: those of the example, small, odd and usual sizes, and all others that are known.

    Of the open sizes, those for which the plain net's results are known come first.
    """
    is_open = not all(info.is_static for info in declared)
    asked: List[Tuple[Sequence[TensorInfo], Tuple[int, int, int]]] = []
    if not is_open or any(info not in declared for info in plain.inputs):
        asked.append((plain.inputs, USUAL))
    usual = trials.outputs(plain, trials.specs) is not None
    asked += [(declared, sizes) for sizes in ((USUAL, ODD, SMALL) if usual else (SMALL, ODD, USUAL))] if is_open else []
    for inputs, sizes in asked:
        try:
            yield sample_specs(inputs, *sizes)
        except ArmnetError as error:
            refusals.append(first_line(error))
    for known in program.known_specs if is_open else ():
        specs = {info.name: spec for info in declared for spec in [known.get(info.name)] if spec is not None}
        if len(specs) == len(declared) and sum(spec.nbytes for spec in specs.values()) <= LARGEST_SAMPLE:
            yield specs


def _may_never_end(net: NetDef, weights: Weights) -> bool:
    """Whether a loop, here or in a net inside, ends by its condition alone, which of no elements may never change."""
    return any(
        _is_endless(op, weights) or any(_may_never_end(inner, weights) for inner in op.subnets()) for op in net.op
    )


def _is_endless(op: OperatorDef, weights: Weights) -> bool:
    if op.full_type in ("While", "ONNXWhile"):
        return not op.get_bool("has_trip_count")
    if op.full_type != "onnx.Loop" or not op.input[0]:
        return op.full_type == "onnx.Loop"
    trips = weights.value(op.input[0])
    return trips is not None and int(trips.max()) > MOST_TRIPS


def _empty_choices(declared: Sequence[TensorInfo], program: Program) -> Iterator[Specs]:
    """The input specs to try in which an open size is 0, unless all outputs are known to have no elements then."""
    weights = program.weights
    constants = {name: weights.spec(name) for op in program.net.op for name in op.reads() if name in weights}
    for sizes in EMPTY:
        with suppress(ArmnetError):
            specs = sample_specs(declared, *sizes)
            if not any(0 in specs[info.name].shape for info in declared if not info.is_static):
                continue
            found = infer_more(program.net, {**constants, **specs})[0]
            if any(spec is None or spec.size for spec in map(found.get, program.net.external_output)):
                yield specs


def _sample(plain: Pair, specs: Specs, refusals: List[str], like: Pair) -> Optional[_Sample]:
    """A sample that the plain net accepts; None if it refuses or takes too long, with the reason in ``refusals``."""
    shapes = {name: spec.shape for name, spec in specs.items()}
    try:
        with ExitStack() as stack:
            predictor = stack.enter_context(Predictor(plain, threads=1))
            planned = predictor if like is plain else stack.enter_context(Predictor(like, threads=1))
            work = work_of(planned.plan(shapes).steps)
            if work > MOST_WORK:
                refusals.append(f"a run takes {work:,} multiply-adds, more than {MOST_WORK:,}")
                return None
            feeds, outputs, below = taken(predictor, specs)
        again = _run(plain, feeds) if random_operator(plain.predict_net) else {}
    except ArmnetError as error:
        refusals.append(first_line(error))
        return None
    return _Sample(feeds, outputs, [name for name in again if difference(outputs[name], again[name])], below)


def _run(pair: Pair, feeds: Feeds) -> Dict[str, Any]:
    with Predictor(pair, threads=1) as predictor:
        return predictor.run(feeds)


def _outputs(pair: Pair, feeds: Feeds) -> Outputs:
    try:
        return _run(pair, feeds)
    except ArmnetError as error:
        return f"it refuses what the plain net takes: {first_line(error)}"


def _frozen(plain: Pair) -> Callable[[Pair], Pair]:
    """A function that replaces the weights that an init_net draws at random by the same constants in every pair."""
    random = [op for op in plain.init_net.op if random_operator(NetDef(op=(op,)))]
    if not random:
        return lambda pair: pair
    try:
        blobs = run_init_net(plain.init_net)
    except ArmnetError:
        return lambda pair: pair
    instead = {op: tuple(fill(name, blobs[name]) for name in op.output if name) for op in random}

    def freeze(pair: Pair) -> Pair:
        ops = (one for op in pair.init_net.op for one in instead.get(op, (op,)))
        return pair.replace(init_net=pair.init_net.replace(op=tuple(ops)))

    return freeze


# The effect of rounding


def _limits(plain: Pair, sample: _Sample) -> Iterator[Mapping[str, float]]:
    """How far each output may be off. The limits grow with each version of the net that is changed in its last bits;
    most often the first version explains enough.
    """
    limits = dict.fromkeys(sample.outputs, TOLERANCE)
    for outputs in _changed_outputs(plain, sample):
        for name, wanted in sample.outputs.items():
            limits[name] = max(limits[name], TOLERANCE + BEYOND_ROUNDING * difference(wanted, outputs[name]))
        yield limits


def _changed_outputs(plain: Pair, sample: _Sample) -> Iterator[Dict[str, Any]]:
    """The outputs of versions of the net: those of changed inputs alone, if the trial has them; then those of changed
    inputs and weights."""
    if sample.trial is not None and sample.trial.changed is not None:
        yield sample.trial.changed
    for seed in range(CHANGES):
        rng = np.random.default_rng(seed)
        feeds = {name: in_last_bits(array, rng) for name, array in sample.feeds.items()}
        try:
            outputs = _run(_with_changed_weights(plain, rng), feeds)
        except ArmnetError:  # the net refuses a weight once it is changed
            outputs = _run(plain, feeds)
        yield outputs


def _with_changed_weights(pair: Pair, rng: np.random.Generator) -> Pair:
    weights = Weights(pair.init_net, {info.name for info in pair.inputs})
    values = {name: weights.value(name) for name in weights.names}
    factors = _factors(pair.predict_net)
    changed = {
        name: in_last_bits(value, rng)
        for name, value in values.items()
        if value is not None and value.dtype.kind == "f" and (value.size >= SMALLEST_CHANGED or name in factors)
    }
    return pair.replace(init_net=weights.changed(changed).init_net)


def _factors(net: NetDef) -> Set[str]:
    """The inputs, except the first, of operators that multiply and add, such as convolutions."""
    found: Set[str] = set()
    for op in net.op:
        schema = find(op)
        if schema is not None and schema.multiply_adds is not None:
            found.update(op.input[1:])
        found.update(*map(_factors, op.subnets()))
    return found
