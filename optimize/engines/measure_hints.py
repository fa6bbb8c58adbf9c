"""Times what can be chosen besides the engines: sizes of blocks and panels, and how the work is split."""

from __future__ import annotations

import time
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from optimize.engines.accuracy import Feeds
from optimize.engines.measure import TRIAL_ROUNDS, WORTHWHILE, seconds_of, time_lists, with_engines
from optimize.engines.options import problem_of
from optimize.rewriting.report import Progress
from runtime_arm.execution.predictor import Predictor
from runtime_arm.machine import blas
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuned import PROCESSES, THREADS
from runtime_arm.pair.tuning import Measurement, Tuning, fingerprint, net_hash

SECONDS = 4.0  # about how long the timing of hints takes
NOISE = 0.97  # of the time; a smaller gain of an operator may be luck
ROUNDS = 15  # inferences of the net with and without hints; hints gain less than engines
SPINNING = 0.1  # seconds for which BLAS's threads may spin after their work and disturb what runs next

Hints = Dict[int, str]  # by place in the net, separated by commas


class Open(NamedTuple):
    """The operator at a place of the net, and the hints that would change how it runs."""

    place: int
    problem: Tuple[object, ...]
    hints: Sequence[str]


def open_hints(pair: Pair, feeds: Feeds) -> List[Open]:
    """The operators that run as steps of their own and have hints to try."""
    with Predictor(pair, threads=1) as predictor:
        steps = predictor.plan({name: array.shape for name, array in feeds.items()}).steps
        ops = dict(enumerate(pair.predict_net.op))
        found = [
            Open(step.index, problem_of(step.op, step.in_specs), step.kernel.hints(step.op))
            for step in steps
            if step.kernel is not None and step.origin.op is ops.get(step.index)
        ]
    return [one for one in found if one.hints]


def faster_hints(pair: Pair, feeds: Feeds, threads: int, progress: Progress) -> Hints:
    """Hints with which the whole net is faster than without them; empty if there are none."""
    operators = open_hints(pair, feeds)
    if not operators:
        return {}
    lists = {one.place: ["", *one.hints] for one in operators}
    timings: Dict[int, Dict[str, float]] = {place: {} for place in lists}
    for number, timing in time_lists(pair, lists, feeds, threads, SECONDS, "blocks and panels", progress):
        known, hint = timings[timing.step.index], lists[timing.step.index][number]
        known[hint] = min(known.get(hint, timing.seconds), timing.seconds)
    hints = promising_hints(operators, timings)
    return hints if hints and _pays(pair, with_engines(pair, hints), feeds, threads) else {}


def promising_hints(operators: Sequence[Open], timings: Mapping[int, Mapping[str, float]]) -> Hints:
    """The fastest hint of each kind for all operators with the same problem, if it gains more than the noise."""
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


def _pays(now: Pair, then: Pair, feeds: Feeds, threads: int) -> bool:
    before, after = seconds_of([now, then], feeds, threads, ROUNDS)
    return after < WORTHWHILE * before


def faster_workers(pair: Pair, feeds: Feeds, threads: int, progress: Progress) -> str:
    """Which is faster: processes that split the operators, or the threads of BLAS in one process."""
    if threads == 1 or blas.loaded() is None:  # the number of threads of another BLAS cannot be set
        return PROCESSES
    progress("processes or threads", 0, 1)
    processes, threaded = (
        pair.replace(tuning=tuning_of(pair, feeds, threads, workers=workers)) for workers in (PROCESSES, THREADS)
    )
    before, after = seconds_apart([processes, threaded], feeds, threads)
    return THREADS if after < WORTHWHILE * before else PROCESSES


def seconds_apart(pairs: Sequence[Pair], feeds: Feeds, threads: int) -> List[float]:
    """``seconds_of`` for pairs whose interleaved runs would disturb each other: for each, the least of two medians."""
    sweeps = []
    for _ in range(2):
        sweep = []
        for pair in pairs:
            time.sleep(SPINNING)
            sweep += seconds_of([pair], feeds, threads, TRIAL_ROUNDS)
        sweeps.append(sweep)
    return [min(taken) for taken in zip(*sweeps)]


def tuning_of(
    pair: Pair,
    feeds: Feeds,
    threads: int,
    engines: Mapping[int, str] = {},
    seconds: Mapping[int, Mapping[str, float]] = {},
    workers: str = PROCESSES,
) -> Tuning:
    """The pair's tuning, or a new one for this machine, with one more measurement."""
    shapes = {name: array.shape for name, array in feeds.items()}
    tuning = pair.tuning or Tuning(net_hash(pair.predict_net), fingerprint(), ())
    return tuning.with_measurement(Measurement(shapes, threads, engines, seconds, workers))
