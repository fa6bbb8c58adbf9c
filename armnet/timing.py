"""Times candidates in turns, and says how far the figures can be trusted."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from runtime_arm.machine.identity import condition

ROOT = Path("/")
LEAST_RUNS = 3
PAUSE = 0.2  # seconds; OpenBLAS threads that had work, or have just started, spin on a core for some 0.1 s
MOST_SECONDS = 30.0  # for all runs of one candidate; slow ones get fewer runs

# Thresholds of warnings: the distance of the quartiles relative to the median, the share of the processor that other
# processes use, and the factor by which runs become slower while they are timed.
WIDE_SPREAD, OTHERS_SHARE, SLOWED = 0.2, 0.05, 1.1
TICK = 0.01  # seconds; the system counts processor time in these units, so a shorter time may count as 0


class Figure(NamedTuple):
    """Seconds of one candidate: median, quartiles and fastest run; and the median CPU time of all its processes."""

    seconds: float
    low: float
    high: float
    fastest: float
    cpu_seconds: float
    runs: int

    @property
    def spread(self) -> float:
        """The distance between the quartiles, relative to the median."""
        return (self.high - self.low) / self.seconds

    def as_dict(self) -> Dict[str, float]:
        return {**self._asdict(), "spread": self.spread}


class _Run(NamedTuple):
    seconds: float
    cpu_seconds: float


def take_turns(
    candidates: Mapping[str, Callable[[], object]],
    runs: int,
    report: Optional[Callable[[int, int], object]] = None,
) -> Tuple[Dict[str, Figure], List[str]]:
    """Runs the candidates in turns, so that noise hits all of them alike; returns their figures, and warnings.

    The first run of each does not count. After it there is a pause, in which threads that were started go to sleep.
    ``report`` is called with the number of finished rounds and the number of all rounds.
    """
    for candidate in candidates.values():
        candidate()
    time.sleep(PAUSE)
    taken: Dict[str, List[_Run]] = {name: [] for name in candidates}
    others = Others()
    for round in range(runs):
        for name, candidate in candidates.items():
            if len(taken[name]) < LEAST_RUNS or sum(run.seconds for run in taken[name]) < MOST_SECONDS:
                taken[name].append(_time(candidate))
        if report is not None:
            report(round + 1, runs)
    figures = {name: _figure(done) for name, done in taken.items()}
    return figures, [*others.warnings(), *_warnings(taken, figures)]


class Others:
    """The processor time that other processes take from here on."""

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.perf_counter(), busy_seconds(), cpu_seconds()

    def warnings(self) -> List[str]:
        """Warnings, if the machine was noisy."""
        if self._busy is None:
            return []
        cores = os.cpu_count() or 1
        others = (busy_seconds() or 0.0) - self._busy - (cpu_seconds() - self._own)
        share = others / cores / (time.perf_counter() - self._start)
        if share <= OTHERS_SHARE or others < cores * TICK:
            return []
        return [f"other processes took {min(share, 1):.0%} of the processor: the machine is noisy"]


def _time(candidate: Callable[[], object]) -> _Run:
    cpu, start = cpu_seconds(), time.perf_counter()
    candidate()
    return _Run(time.perf_counter() - start, cpu_seconds() - cpu)


def _figure(runs: List[_Run]) -> Figure:
    seconds = sorted(run.seconds for run in runs)
    low, high = seconds[len(seconds) // 4], seconds[-1 - len(seconds) // 4]
    return Figure(median(seconds), low, high, seconds[0], median(run.cpu_seconds for run in runs), len(runs))


def _warnings(taken: Mapping[str, List[_Run]], figures: Mapping[str, Figure]) -> Any:
    wide = [name for name, figure in figures.items() if figure.spread > WIDE_SPREAD]
    if wide:
        widest = max(figures[name].spread for name in wide)
        yield f"the quartiles of {', '.join(wide)} are up to {widest:.0%} of the median apart"
    for name, runs in taken.items():
        third = len(runs) // 3
        if third >= LEAST_RUNS:
            first, last = (median(run.seconds for run in part) for part in (runs[:third], runs[-third:]))
            if last > SLOWED * first:
                yield f"{name} became {last / first - 1:.0%} slower while it was timed: the processor may be hot"
    for reason in condition()["slowed"]:
        yield f"the processor is slowed down: {reason}"


def cpu_seconds(root: Path = ROOT) -> float:
    """CPU time of this process with all its threads, and of its living children, as far as the system reports it."""
    total = time.process_time()
    for listed in root.glob(f"proc/{os.getpid()}/task/*/children"):
        for child in _text(listed).split():
            total += int((_text(root / f"proc/{child}/schedstat").split() or ["0"])[0]) * 1e-9
    return total


def busy_seconds(root: Path = ROOT) -> Optional[float]:
    """Time that all processors together have been busy since the system started; None if it does not report it."""
    words = _text(root / "proc/stat").split("\n")[0].split()
    if len(words) < 8:
        return None
    user, nice, system, _, _, interrupts, soft, *_ = map(int, words[1:])
    return (user + nice + system + interrupts + soft) / float(os.sysconf("SC_CLK_TCK"))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
