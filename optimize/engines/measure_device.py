"""Times islands of operators on a device beside the processor, and decides for each where and how it runs."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from optimize.engines.accuracy import Feeds, relative_error
from optimize.engines.measure import MOST_ROUNDS, SECONDS, TRIAL_ROUNDS, WORTHWHILE, seconds_of
from optimize.engines.measure_algorithms import faster_algorithms, time_algorithms
from optimize.rewriting.report import Progress, Report
from runtime_arm.execution.predictor import Predictor
from runtime_arm.gpu.device import Device
from runtime_arm.gpu.island import Island
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.tuned import OnDevice
from runtime_arm.pair.tuning import Measurement

Timed = Mapping[str, Any]  # an island: its operators, by their places in the net, and the seconds on either side


def with_device(
    pair: Pair, spec: str, feeds: Feeds, threads: int, accuracy: float, report: Report, progress: Progress
) -> Pair:
    """The pair whose tuning for that many threads also says which operators run on the device.

    Convolutions run with the fastest of the device's algorithms, unless outputs then differ by more than the accuracy,
    relative to their largest magnitude. Then each island is timed there, copies included, and on the processor; those
    that are faster there are tried in the whole net, and kept if it is faster with them and as accurate. DeviceError if
    the device is not there or computes wrongly.
    """
    pair = _with_algorithms(pair, spec, feeds, threads, accuracy, report, progress)
    progress(f"islands on {spec}", 0, 1)
    device, islands = _timed(pair, spec, feeds, threads)
    promising = [one for one in islands if one["device"] < one["processor"]]
    promising.sort(key=lambda one: one["device"] - one["processor"])
    chosen: List[Timed] = []
    now = seconds = seconds_of([pair], feeds, threads)[0]
    end = time.perf_counter() + SECONDS
    for number, island in enumerate(promising):
        progress("trials in the whole net", number, len(promising))
        trial = _placed(pair, device, feeds, threads, [*chosen, island], islands)
        pairs = [pair, trial] if not chosen else [_placed(pair, device, feeds, threads, chosen, islands), trial]
        before, after = seconds_of(pairs, feeds, threads, TRIAL_ROUNDS, [spec if chosen else None, spec])
        if after < WORTHWHILE * before and _error(pair, trial, spec, feeds, threads) <= accuracy:
            chosen.append(island)
            now = after
        if time.perf_counter() > end:
            break
    report.notes.append(
        f"threads={threads}, {spec} ({device.name}): {len(chosen)} of {len(islands)} islands run there, "
        + (
            f"{now * 1e3:.2f} ms with it, {seconds * 1e3:.2f} ms without"
            if chosen
            else f"{seconds * 1e3:.2f} ms without"
        )
    )
    report.notes += device.caveats()
    return _placed(pair, device, feeds, threads, chosen, islands)


def _with_algorithms(
    pair: Pair, spec: str, feeds: Feeds, threads: int, accuracy: float, report: Report, progress: Progress
) -> Pair:
    """The pair whose tuning has the seconds of the device's algorithms and names those faster than the default."""
    timings = time_algorithms(pair, spec, feeds, threads, progress)
    measurement = _measurement(pair, feeds, threads)
    engines, seconds = dict(measurement.engines), dict(measurement.seconds)
    for place, known in timings.items():
        seconds[place] = {**seconds.get(place, {}), **{str(preference): taken for preference, taken in known.items()}}
    faster = faster_algorithms(timings)
    for place, algorithm in faster.items():
        engines[place] = f"{engines[place]},{algorithm}" if place in engines else algorithm
    timed = _tuned(pair, measurement._replace(seconds=seconds))
    chosen = _tuned(pair, measurement._replace(engines=engines, seconds=seconds))
    if not faster or _error(timed, chosen, spec, feeds, threads) > accuracy:
        return timed
    found = f"{len(faster)} of {len(timings)} convolutions have an algorithm faster than the default"
    report.notes.append(f"threads={threads}, {spec}: {found}")
    return chosen


def _timed(pair: Pair, spec: str, feeds: Feeds, threads: int) -> Tuple[Device, List[Timed]]:
    """The device, and the operators of every island with their seconds on it and on the processor."""
    with Predictor(pair, threads=threads, device=spec) as predictor:
        assert predictor.placement is not None
        predictor.run(feeds)  # plans, compiles, and compares every island with the processor
        islands: List[Timed] = [
            {"operators": sorted(step.index for step in island.steps), **_seconds_of(island)}
            for island in predictor.placement.islands
        ]
        return predictor.placement.session.device, islands


def _seconds_of(island: Island) -> Dict[str, float]:
    random = np.random.default_rng(0)
    feeds = [np.asarray(random.standard_normal(value.spec.shape), np.float32) for value in island.inputs]
    results = [np.empty(value.spec.shape, np.float32) for value in island.outputs]
    return {"device": _median(lambda: island.run(feeds, results)), "processor": _median(lambda: island.host.run(feeds))}


def _median(run: Callable[[], object]) -> float:
    taken: List[float] = []
    end = time.perf_counter() + SECONDS / 16
    while len(taken) < 3 or (len(taken) <= MOST_ROUNDS and time.perf_counter() < end):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return median(taken[1:])


def _placed(
    pair: Pair, device: Device, feeds: Feeds, threads: int, chosen: Sequence[Timed], islands: Sequence[Timed]
) -> Pair:
    """The pair with these islands on the device; measurements of engines stay."""
    operators = tuple(sorted(place for one in chosen for place in one["operators"]))
    on_device = OnDevice(device.spec, device.name, device.driver, operators, tuple(islands))
    return _tuned(pair, _measurement(pair, feeds, threads)._replace(device=on_device))


def _measurement(pair: Pair, feeds: Feeds, threads: int) -> Measurement:
    """What was measured with so many threads, which a pair of ``with_device`` has."""
    assert pair.tuning is not None
    found = pair.tuning.find({name: array.shape for name, array in feeds.items()}, threads)
    assert found is not None
    return found


def _tuned(pair: Pair, measurement: Measurement) -> Pair:
    assert pair.tuning is not None
    return pair.replace(tuning=pair.tuning.with_measurement(measurement))


def _error(plain: Pair, placed: Pair, spec: str, feeds: Feeds, threads: int) -> float:
    """How far outputs differ, relative to their largest magnitude."""
    with Predictor(plain, threads=threads) as one, Predictor(placed, threads=threads, device=spec) as other:
        return relative_error([one.run(feeds)], [other.run(feeds)])
