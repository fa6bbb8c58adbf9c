"""Times the algorithms with which a device can compute each convolution, by the device's own clock."""

from __future__ import annotations

from typing import Dict, Iterator, List, Set, Tuple

from optimize.engines.accuracy import Feeds
from optimize.engines.measure import SWEEPS, with_engines
from optimize.rewriting.report import Progress
from runtime_arm.execution.predictor import Predictor
from runtime_arm.gpu.island import Island
from runtime_arm.gpu.lowering.convolution import ALGORITHMS, algorithm_of_kernels
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.engine_preferences import DEVICE, Preference
from runtime_arm.registry.facts import Kind
from runtime_arm.registry.schema import find

ROUNDS = 5  # runs of the net for each algorithm in a sweep
CLEARLY_FASTER = 0.95  # of the default's time; a smaller gain is noise

Timings = Dict[int, Dict[Preference, float]]  # seconds by place in the net and algorithm


def time_algorithms(pair: Pair, spec: str, feeds: Feeds, threads: int, progress: Progress) -> Timings:
    """The least seconds of every convolution that runs on the device, with each algorithm; copies of its blobs from one
    layout to another count as its own.
    """
    bare = pair.replace(tuning=None)
    schemas = [find(op) for op in bare.predict_net.op]
    places = [at for at, schema in enumerate(schemas) if schema is not None and schema.kind is Kind.CONVOLUTION]
    timings: Timings = {}
    for at in range(SWEEPS * len(ALGORITHMS) if places else 0):
        algorithm = ALGORITHMS[at % len(ALGORITHMS)]
        progress(f"convolutions on {spec}: {algorithm}", at, SWEEPS * len(ALGORITHMS))
        asked = with_engines(bare, dict.fromkeys(places, str(Preference(DEVICE, algorithm))))
        with Predictor(asked, threads=threads, device=spec) as predictor:
            predictor.run(feeds)  # plans and compiles
            assert predictor.placement is not None
            for island in predictor.placement.islands:
                for place, preference, seconds in _seconds_of(island):
                    known = timings.setdefault(place, {})
                    known[preference] = min(known.get(preference, seconds), seconds)
    return timings


def _seconds_of(island: Island) -> Iterator[Tuple[int, Preference, float]]:
    """The place of each convolution of an island, the algorithm that computed it, and its least seconds."""
    kernels: Dict[int, Set[str]] = {}
    taken: Dict[int, List[float]] = {}
    for number in range(ROUNDS):
        for step, kernel, seconds in island.seconds():
            if step is not None and step.schema.kind is Kind.CONVOLUTION:
                kernels.setdefault(step.index, set()).add(kernel)
                taken.setdefault(step.index, [0.0] * ROUNDS)[number] += seconds
    for place, each in taken.items():
        yield place, Preference(DEVICE, algorithm_of_kernels(kernels[place])), min(each)


def faster_algorithms(timings: Timings) -> Dict[int, str]:
    """The fastest algorithm of each convolution, if it is not the default."""
    default = Preference(DEVICE, ALGORITHMS[0])
    found = {place: min(known, key=lambda one: known[one]) for place, known in timings.items() if default in known}
    return {
        place: str(preference)
        for place, preference in found.items()
        if timings[place][preference] < CLEARLY_FASTER * timings[place][default]
    }
