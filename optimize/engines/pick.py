"""pick_engines: chooses the kernel of every operator."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from optimize.engines.error_budget import DIRECT, Budget, Limits, find_limits, limited
from optimize.engines.measure import (
    SECONDS,
    TRIAL_ROUNDS,
    WORTHWHILE,
    promising,
    seconds_of,
    time_options,
    with_engines,
)
from optimize.engines.measure_hints import faster_hints, faster_workers, seconds_apart, tuning_of
from optimize.engines.options import Option, Options, options_of
from optimize.engines.trials import Trials
from optimize.rewriting.report import EngineChoice, Progress, Report, quiet
from optimize.rewriting.shapes import first_taken, sample_specs
from runtime_arm.errors import ArmnetError, UsageError
from runtime_arm.machine.cores import useful_cores
from runtime_arm.netdef import NetDef
from runtime_arm.operators.control.trials import trying
from runtime_arm.pair.argument import require_pair
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuned import PROCESSES
from runtime_arm.pair.tuning import Measurement, Tuning, net_hash
from runtime_arm.registry.engine_preferences import DEFAULT, DEVICE, Preference
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.kernel import REFERENCE
from runtime_arm.registry.schema import Operator, find, registered
from runtime_arm.registry.specs import TensorSpec

AUTO, MEASURE = "auto", "measure"
ACCURACY = 1e-4

Picks = Mapping[int, Option]


@trying()
def pick_engines(
    pair: Pair,
    engines: str = AUTO,
    *,
    accuracy: Optional[float] = None,
    plain: Optional[Pair] = None,
    threads: Optional[int] = None,
    device: Optional[str] = None,
    stop_after: Optional[int] = None,
    report: Optional[Report] = None,
    progress: Progress = quiet,
    trials: Optional[Trials] = None,
) -> Pair:
    """The pair whose operators run by engines that are legal, cheap, and accurate enough.

    engines: "auto" leaves the choice to the runtime, which knows the machine and the actual shapes; "measure" times the
    engines of every operator on this machine and keeps the fastest in the pair's ``tuning``; a comma-separated list
    forces engines on operators that have one of them. accuracy: how far outputs may differ from those of ``plain``, the
    pair before other optimisations, relative to their largest magnitude (default 1e-4), as measured on random inputs;
    if outputs differ by more because the net decides otherwise, the numbers by which it decides count (see
    ``decisions``). Engines that exceed it are ruled out in the net itself, so that the accuracy holds on every machine;
    those that gain least come first. threads: the number to measure for; by default one, and all cores. device: a
    device beside the processor, "opencl:0"; which islands of operators run there is measured, too, and kept in the
    ``tuning``. report: collects every choice; ruling out engines of an operator is a step, of which stop_after allows
    this many in all. progress: called with what is being done, how many of these are done, and of how many. trials:
    collects what the nets showed, for later steps. UsageError for engines that do not exist and for options that
    contradict each other.

    Examples:
        >>> import armnet
        >>> pair = armnet.pick_engines(armnet.export("demo/digits.onnx"), accuracy=1e-6)
    """
    require_pair(pair, "pick_engines")
    report = Report() if report is None else report
    trials = Trials({}) if trials is None else trials
    known, pair = pair.tuning, pair.replace(tuning=None)
    if engines not in (AUTO, MEASURE):
        if accuracy is not None:
            raise UsageError("an accuracy chooses engines, a list forces them; give one of the two")
        return _explained(pair.replace(predict_net=_preferring(pair.predict_net, engines)), report)
    _check_options(engines, accuracy, threads, device)
    try:
        progress("engines", 0, 1)
        picker = _Picker(pair, plain or pair, ACCURACY if accuracy is None else accuracy, report, trials)
        result = picker.within_budget(stop_after)
    except ArmnetError as error:
        if engines == MEASURE or accuracy is not None:
            raise
        report.notes.append(f"the error of engines is not known, as the net could not be tried: {error}")
        return pair.replace(tuning=_kept(known, pair))
    if engines == AUTO:
        options = picker.options if result is pair else None
        return _explained(result.replace(tuning=_kept(known, result)), report, options)
    for count in [threads] if threads else sorted({1, useful_cores()}):
        result = picker.measured(result, count, progress)
        if device is not None:
            from optimize.engines.measure_device import with_device

            result = with_device(result, device, picker.feeds, count, picker.accuracy, report, progress)
    return _explained(result, report)


def _check_options(engines: str, accuracy: Optional[float], threads: Optional[int], device: Optional[str]) -> None:
    if accuracy is not None and not accuracy > 0:
        raise UsageError(f"the accuracy must be positive, got {accuracy:g}")
    if threads is not None and engines != MEASURE:
        raise UsageError("a number of threads can only be given if engines are measured")
    if device is not None and engines != MEASURE:
        raise UsageError('a device can only be given if engines are measured: engines="measure", --engines measure')
    if threads is not None and threads < 1:
        raise UsageError(f"the number of threads must be positive, got {threads}")


def _kept(tuning: Optional[Tuning], pair: Pair) -> Optional[Tuning]:
    """The tuning, if it was measured for this very net. The runtime checks whether it was on this machine."""
    return tuning if tuning is not None and tuning.net == net_hash(pair.predict_net) else None


class _Picker:
    """Chooses for one pair within one budget."""

    def __init__(self, pair: Pair, plain: Pair, accuracy: float, report: Report, trials: Trials):
        self._pair, self.accuracy, self._report = pair, accuracy, report

        def budget(specs: Dict[str, TensorSpec]) -> Budget:
            trials.specs = specs
            return Budget(plain, pair, trials, accuracy)

        self._budget = first_taken(pair.inputs, budget)
        self.specs = trials.specs
        self.feeds = self._budget.samples[0]
        self.options = self._budget.options

    def within_budget(self, stop_after: Optional[int] = None) -> Pair:
        """The pair with those of the runtime's choices ruled out that are not accurate enough."""
        options = self.options
        chosen = {one.place: one.chosen for one in options if one.chosen is not None}
        gains = {
            one.place: max((option.predicted for option in one.open), default=0.0) - chosen[one.place].predicted
            for one in options
            if one.place in chosen
        }
        limits = self._limits(chosen, gains, lambda limits: limited(self._pair, options, limits))
        before = self._pair.predict_net.op
        after = limited(self._pair, options, limits).predict_net.op
        changed = [place for place, op in enumerate(after) if op != before[place]]
        if stop_after is not None:
            changed = changed[: max(0, stop_after - len(self._report.steps))]
        for place in changed:
            self._report.fired("pick_engines", [before[place]], [after[place]], ["for the accuracy"])
        return limited(self._pair, options, {place: limits[place] for place in changed})

    def measured(self, pair: Pair, threads: int, progress: Progress) -> Pair:
        """The pair with a tuning for that many threads.

        An engine that is faster by itself may need conversions between layouts around it, so it is tried in the net.
        """
        bare = pair.replace(tuning=None)
        options = options_of(bare, self.specs)
        timings = time_options(bare, options, self.feeds, threads, progress)
        picks = self._faster(bare, promising(options, timings), threads, progress)
        engines = _names(picks)
        hints = faster_hints(with_engines(bare, engines), self.feeds, threads, progress)
        for place, hint in hints.items():
            engines[place] = f"{engines[place]},{hint}" if place in engines else hint
        workers = faster_workers(with_engines(bare, engines), self.feeds, threads, progress)
        seconds = {place: {str(name): taken for name, taken in each.items()} for place, each in timings.items()}
        tuned = pair.replace(tuning=tuning_of(pair, self.feeds, threads, engines, seconds, workers))
        compare = seconds_of if workers == PROCESSES else seconds_apart
        before, after = compare([bare, tuned], self.feeds, threads)
        progress("done", 1, 1)
        if after > before:
            self._report.notes.append(
                f"threads={threads}: nothing that was measured is faster than the runtime's own "
                f"choice, {before * 1e3:.2f} ms"
            )
            return pair.replace(tuning=tuning_of(pair, self.feeds, threads, {}, seconds))
        self._report.notes.append(
            f"threads={threads}: {before * 1e3:.2f} ms by the runtime's own choice, {after * 1e3:.2f} ms with "
            f"{len(picks)} engines and {len(hints)} sizes of blocks or panels chosen by what was measured"
            + (", by threads of BLAS in one process" if workers != PROCESSES else "")
        )
        return tuned

    def _faster(
        self, bare: Pair, candidates: Sequence[Mapping[int, Option]], threads: int, progress: Progress
    ) -> Dict[int, Option]:
        """Those of the promising engines with which the whole net is faster."""
        picks: Dict[int, Option] = {}
        end = time.perf_counter() + SECONDS
        for number, candidate in enumerate(candidates):
            progress("trials in the whole net", number, len(candidates))
            trial = {**picks, **candidate}
            pairs = [with_engines(bare, _names(picks)), with_engines(bare, _names(trial))]
            now, then = seconds_of(pairs, self.feeds, threads, TRIAL_ROUNDS)
            if then < WORTHWHILE * now and self._is_accurate(pairs[1], candidate):
                picks = trial
            if time.perf_counter() > end:
                break
        return picks

    def _is_accurate(self, pair: Pair, picks: Picks) -> bool:
        if all(option.error <= DIRECT for option in picks.values()):
            return True
        return self._budget.error(pair) <= self.accuracy

    def _limits(self, chosen: Picks, gains: Mapping[int, float], pair_of: Callable[[Limits], Pair]) -> Limits:
        """Limits of the error of operators that keep the net within its budget."""
        errors = {place: option.error for place, option in chosen.items()}
        if not self._budget.is_needed:
            return {}
        limits = find_limits(errors, gains, lambda limits: self._budget.error(pair_of(limits)) <= self.accuracy)
        error = self._budget.error(pair_of(limits))
        if self._budget.sees_nothing:
            self._report.warnings.append("outputs are zero for random inputs, so errors of engines do not show")
            return limits
        self._report.error = error
        if error > self.accuracy:
            self._report.warnings.append(
                f"without any engine that rounds more, outputs still differ by {error:.2g} of "
                f"their largest magnitude, which is more than {self.accuracy:g}"
            )
        return limits


def _names(picks: Picks) -> Dict[int, str]:
    return {place: str(option.preference) for place, option in picks.items()}


def _preferring(net: NetDef, engines: str) -> NetDef:
    """The net whose operators prefer the engines of a comma-separated list, where they have one of them.

    Planning skips an engine that refuses an operator.
    """
    preferences = [Preference.parse(name.strip()) for name in engines.split(",")]
    _check_exist(preferences)
    wanted = {preference.engine for preference in preferences}
    ops = []
    for op in net.op:
        schema = find(op)
        has_one = schema is not None and not wanted.isdisjoint([REFERENCE, *schema.kernels, *_of_device(schema)])
        ops.append(op.replace(engine=",".join(name.strip() for name in engines.split(","))) if has_one else op)
    return net.replace(op=tuple(ops))


def _of_device(schema: Operator) -> List[str]:
    """The engine of devices beside the processor, if they have several algorithms to compute the operator."""
    return [DEVICE] if schema.kind is Kind.CONVOLUTION else []


def _check_exist(preferences: Sequence[Preference]) -> None:
    """UsageError for engines or variants that no operator has, and for lists that are empty or contradictory."""
    from runtime_arm.gpu.lowering.convolution import ALGORITHMS

    known: Dict[str, Set[str]] = {REFERENCE: set(), DEVICE: set(ALGORITHMS)}
    for schema in registered():
        for kernel in schema.kernels.values():
            known.setdefault(kernel.engine, set()).update(kernel.variants)
    if preferences == [Preference(DEFAULT)]:
        raise UsageError("no engine is named; auto leaves the choice to the device")
    for preference in preferences:
        if preference._replace(refused=not preference.refused) in preferences:
            raise UsageError(f"{str(preference).lstrip('!')!r} is both asked for and ruled out")
        if preference.engine in (AUTO, MEASURE):
            raise UsageError(f"{preference.engine!r} cannot stand in a list: it chooses engines, a list forces them")
        if preference.engine not in known:
            raise UsageError(f"no operator has an engine {preference.engine!r}; there are {', '.join(sorted(known))}")
        if preference.variant and preference.variant not in known[preference.engine]:
            variants = ", ".join(sorted(known[preference.engine])) or "none"
            raise UsageError(f"engine {preference.engine} has no variant {preference.variant!r}; there are {variants}")


def _explained(pair: Pair, report: Report, options: Optional[Sequence[Options]] = None) -> Pair:
    """Reports the pair's engines, if its shapes are known, and returns the pair. options: the pair's, if known."""
    if options is None:
        try:
            options = options_of(pair.replace(tuning=None), sample_specs(pair.inputs))
        except ArmnetError:
            return pair
    measurements = pair.tuning.measurements if pair.tuning is not None else ()
    for one in options:
        chosen = str(one.chosen.preference) if one.chosen is not None else one.engine
        tuned = {each.threads: each.engines[one.place] for each in measurements if one.place in each.engines}
        facts = {str(option.preference): _facts(one.place, option, measurements) for option in one.open}
        report.engines.append(EngineChoice(one.op.signature(), chosen, tuned, facts, one.refused))
    return pair


def _facts(place: int, option: Option, measurements: Sequence[Measurement]) -> Mapping[str, Any]:
    """What is known about an engine of the operator at this place."""
    seconds = {each.threads: each.seconds.get(place, {}).get(str(option.preference)) for each in measurements}
    return {
        "multiplies": None if option.work is None else option.work.time,
        "error": option.error,
        "seconds": {threads: taken for threads, taken in seconds.items() if taken is not None},
    }


__all__ = ["ACCURACY", "AUTO", "MEASURE", "pick_engines"]
