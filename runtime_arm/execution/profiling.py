"""Measures how long each operator of a run takes."""

from __future__ import annotations

import time
from contextlib import contextmanager
from statistics import median
from typing import Any, Callable, Dict, Iterator, List, Mapping

from runtime_arm.execution.executor import walk_segments
from runtime_arm.execution.predictor import Predictor
from runtime_arm.planning.steps import Step
from runtime_arm.records import NamedTuple
from runtime_arm.registry.kernel import Run


class Timing(NamedTuple):
    """A step, its median time in seconds, and the start of its last run, in seconds since that inference began."""

    step: Step
    seconds: float
    began: float


def profile(predictor: Predictor, feeds: Mapping[str, Any], rounds: int = 10) -> List[Timing]:
    """The times of every step of an inference with these inputs, without operators whose output shape depends on data.

    A first inference plans and warms up. Reading the clock adds about 0.1 us to each step.
    """
    predictor.run(feeds)
    taken: Dict[Step, List[float]] = {}
    began: Dict[Step, float] = {}

    def timed(step: Step, run: Run) -> Run:
        def run_timed() -> None:
            start = time.perf_counter()
            run()
            taken.setdefault(step, []).append(time.perf_counter() - start)
            began[step] = start

        return run_timed

    with around_steps(predictor, timed):
        for _ in range(rounds):
            start = time.perf_counter()
            predictor.run(feeds)
    return [Timing(step, median(seconds), began[step] - start) for step, seconds in taken.items()]


@contextmanager
def around_steps(predictor: Predictor, wrap: Callable[[Step, Run], Run]) -> Iterator[None]:
    """Inside the block, every step runs as ``wrap(step, run)``, for the input shapes that have been run before."""
    segments = [segment for root in predictor.executor.plans() for segment in walk_segments(root)]
    originals = [segment.runs for segment in segments]
    for segment in segments:
        segment.runs = [wrap(step, run) for step, run in zip(segment.running, segment.runs)]
    try:
        yield
    finally:
        for segment, runs in zip(segments, originals):
            segment.runs = runs
