"""Times the engines of every operator of a net on this machine."""

from __future__ import annotations

import time
from statistics import median
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from optimize.engines.accuracy import Feeds
from optimize.engines.options import Option, Options
from optimize.rewriting.report import Progress
from runtime_arm.execution.predictor import Predictor
from runtime_arm.execution.profiling import Timing, profile
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.engine_preferences import Preference, preferring

SECONDS = 8.0  # about how long the timing takes, unless single inferences are slower
SWEEPS = 2  # over all options, so that a busy moment does not spoil all timings of one option
MOST_ROUNDS = 15  # inferences for each option in a sweep
TRIAL_ROUNDS = 5  # inferences of each of two nets that are compared
WORTHWHILE = 0.99  # of the time; a smaller gain is noise

Timings = Dict[int, Dict[Preference, float]]  # seconds by place in the net and engine


def time_options(pair: Pair, options: Sequence[Options], feeds: Feeds, threads: int, progress: Progress) -> Timings:
    """How long each operator takes by each of its open engines in the running net: the smallest median of the sweeps.

    In every candidate net each operator uses another one of its engines, so there are only as many nets to time as the
    operator with the most engines has.
    """
    contested = {one.place: one.open for one in options if len(one.open) > 1}
    wanted = {place: [str(option.preference) for option in found] for place, found in contested.items()}
    timings: Timings = {}
    for number, timing in time_lists(pair, wanted, feeds, threads, SECONDS, "engines", progress):
        place = timing.step.index
        preference = contested[place][number].preference
        if timing.step.engine == preference.engine:
            known = timings.setdefault(place, {})
            known[preference] = min(known.get(preference, timing.seconds), timing.seconds)
    return timings


def time_lists(
    pair: Pair,
    lists: Mapping[int, Sequence[str]],
    feeds: Feeds,
    threads: int,
    seconds: float,
    what: str,
    progress: Progress,
) -> Iterator[Tuple[int, Timing]]:
    """The timings of the operators at some places of the net with each of their lists of preferred engines in turn.

    Yields the number of the list and the timing. seconds: about how long all of it may take.
    """
    count = max(map(len, lists.values()), default=0)
    for sweep in range(SWEEPS):
        for number in range(count):
            told = {place: number % len(known) for place, known in lists.items()}
            progress(f"{what}: candidate {number + 1} of {count}", sweep * count + number, SWEEPS * count)
            chosen = {place: lists[place][at] for place, at in told.items()}
            with Predictor(with_engines(pair, chosen), threads=threads) as predictor:
                rounds = _affordable_rounds(predictor, feeds, seconds / (SWEEPS * count))
                for timing in profile(predictor, feeds, rounds):
                    if timing.step.index in told:
                        yield told[timing.step.index], timing


def _affordable_rounds(predictor: Predictor, feeds: Mapping[str, object], seconds: float) -> int:
    predictor.run(feeds)  # the first run plans
    start = time.perf_counter()
    predictor.run(feeds)
    taken = time.perf_counter() - start
    return max(1, min(MOST_ROUNDS, int(seconds / max(taken, 1e-6))))


def promising(options: Sequence[Options], timings: Timings) -> List[Dict[int, Option]]:
    """Faster engines for all operators with the same problem; those that save the most time come first."""
    gains: Dict[Tuple[object, ...], float] = {}
    candidates: Dict[Tuple[object, ...], Dict[int, Option]] = {}
    for one in options:
        timed = timings.get(one.place, {})
        for option in one.open:
            if one.chosen is not None and {option.preference, one.chosen.preference} <= timed.keys():
                key = (one.problem, option.preference)
                gains[key] = gains.get(key, 0.0) + timed[one.chosen.preference] - timed[option.preference]
                candidates.setdefault(key, {})[one.place] = option
    return [candidates[key] for key in sorted(gains, key=lambda key: -gains[key]) if gains[key] > 0]


def with_engines(pair: Pair, chosen: Mapping[int, str]) -> Pair:
    """The pair whose operators at these places prefer these engines; "" prefers none."""
    ops = list(pair.predict_net.op)
    for place, engines in chosen.items():
        if engines:
            ops[place] = preferring(ops[place], engines)
    return pair.replace(predict_net=pair.predict_net.replace(op=tuple(ops)))


def seconds_of(
    pairs: Sequence[Pair],
    feeds: Feeds,
    threads: int,
    rounds: int = 9,
    devices: Sequence[Optional[str]] = (),
) -> List[float]:
    """How long an inference of each pair takes, on its device if it has one: medians of interleaved runs."""
    beside = devices or [None] * len(pairs)
    predictors = [Predictor(pair, threads=threads, device=device) for pair, device in zip(pairs, beside)]
    taken: List[List[float]] = [[] for _ in pairs]
    try:
        for at in range(rounds + 1):
            for predictor, seconds in zip(predictors, taken):
                start = time.perf_counter()
                predictor.run(feeds)
                if at:  # the first run plans
                    seconds.append(time.perf_counter() - start)
    finally:
        for predictor in predictors:
            predictor.close()
    return [median(seconds) for seconds in taken]
