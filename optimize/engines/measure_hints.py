"""Times what is left once the engines are chosen: sizes of blocks and panels, and who splits the work."""

from __future__ import annotations

import time
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from optimize.engines.measure import TRIAL_ROUNDS, WORTHWHILE, seconds_of, time_lists, with_engines
from optimize.engines.options import problem_of
from optimize.rewriting.report import Progress
from runtime_arm.execution.predictor import Predictor
from runtime_arm.machine import blas
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuning import PROCESSES, THREADS, Measurement, Tuning, fingerprint, net_hash
from runtime_arm.registry.specs import TensorSpec

SECONDS = 4.0  # about what the hints take
NOISE = 0.97  # of the time; an operator that gains less may have been lucky
ROUNDS = 15  # inferences by which the net is compared with itself with hints; they gain less than engines do
SPINNING = 0.1  # seconds that BLAS's threads may stay awake for more work, beside whoever runs then

InputSpecs = Mapping[str, TensorSpec]
Hints = Dict[int, str]  # by place in the net, separated by commas


class Open(NamedTuple):
    """The operator at a place of the net, and the hints with which it would run otherwise than it does."""

    place: int
    problem: Tuple[object, ...]
    hints: Sequence[str]


def open_hints(pair: Pair, specs: InputSpecs) -> List[Open]:
    """The operators that run by themselves and have hints to try."""
    with Predictor(pair, threads=1) as predictor:
        steps = predictor.plan({name: spec.shape for name, spec in specs.items()}).steps
        ops = dict(enumerate(pair.predict_net.op))
        found = [
            Open(step.index, problem_of(step.op, step.in_specs), step.kernel.hints(step.op))
            for step in steps
            if step.kernel is not None and step.origin.op is ops.get(step.index)
        ]
    return [one for one in found if one.hints]


def faster_hints(pair: Pair, specs: InputSpecs, threads: int, progress: Progress) -> Hints:
    """Hints with which the whole net is faster than it is without them; none where there are no such."""
    operators = open_hints(pair, specs)
    if not operators:
        return {}
    lists = {one.place: ["", *one.hints] for one in operators}
    timings: Dict[int, Dict[str, float]] = {place: {} for place in lists}
    for number, timing in time_lists(pair, lists, specs, threads, SECONDS, "blocks and panels", progress):
        known, hint = timings[timing.step.index], lists[timing.step.index][number]
        known[hint] = min(known.get(hint, timing.seconds), timing.seconds)
    hints = promising_hints(operators, timings)
    return hints if hints and _pays(pair, with_engines(pair, hints), specs, threads) else {}


def promising_hints(operators: Sequence[Open], timings: Mapping[int, Mapping[str, float]]) -> Hints:
    """The fastest hint of each kind for all operators that have one problem, where it gains more than the noise."""
    alike: Dict[Tuple[object, ...], List[Open]] = {}
    for one in operators:
        alike.setdefault(one.problem, []).append(one)
    found: Hints = {}
    for group in alike.values():
        totals = {
            hint: sum(timings[one.place][hint] for one in group)
            for hint in ("", *group[0].hints)
            if all(hint in timings[one.place] for one in group)
        }
        best: Dict[str, str] = {}
        for hint in sorted(totals, key=lambda hint: totals[hint]):
            if hint and totals[hint] < NOISE * totals.get("", 0.0):
                best.setdefault(hint.partition("=")[0], hint)
        if best:
            found.update((one.place, ",".join(best.values())) for one in group)
    return found


def _pays(now: Pair, then: Pair, specs: InputSpecs, threads: int) -> bool:
    before, after = seconds_of([now, then], specs, threads, ROUNDS)
    return after < WORTHWHILE * before


def faster_workers(pair: Pair, specs: InputSpecs, threads: int, progress: Progress) -> str:
    """Whether processes that split the operators are faster, or the threads of BLAS in one process."""
    if threads == 1 or blas.loaded() is None:  # of another BLAS nobody could say how many threads it takes
        return PROCESSES
    progress("processes or threads", 0, 1)
    processes, threaded = (
        pair.replace(tuning=tuning_of(pair, specs, threads, workers=workers)) for workers in (PROCESSES, THREADS)
    )
    before, after = seconds_apart([processes, threaded], specs, threads)
    return THREADS if after < WORTHWHILE * before else PROCESSES


def seconds_apart(pairs: Sequence[Pair], specs: InputSpecs, threads: int) -> List[float]:
    """``seconds_of`` pairs that would disturb each other if their runs took turns: the least of two medians each."""
    sweeps = []
    for _ in range(2):
        sweep = []
        for pair in pairs:
            time.sleep(SPINNING)
            sweep += seconds_of([pair], specs, threads, TRIAL_ROUNDS)
        sweeps.append(sweep)
    return [min(taken) for taken in zip(*sweeps)]


def tuning_of(
    pair: Pair,
    specs: InputSpecs,
    threads: int,
    engines: Mapping[int, str] = {},
    seconds: Mapping[int, Mapping[str, float]] = {},
    workers: str = PROCESSES,
) -> Tuning:
    """The pair's tuning with one measurement more; of this machine alone, if the pair has none."""
    shapes = {name: spec.shape for name, spec in specs.items()}
    tuning = pair.tuning or Tuning(net_hash(pair.predict_net), fingerprint(), ())
    return tuning.with_measurement(Measurement(shapes, threads, engines, seconds, workers))
