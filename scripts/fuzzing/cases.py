"""Numbered cases, run in child processes: a case that crashes or hangs ends only its own process, and is a finding.

The common parts of all fuzzers: options, the loop over cases, the folder of findings and the final summary.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
import traceback
import warnings
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Callable, Iterator, List, NamedTuple, Sequence

from runtime_arm.app.command_line import Parser

MOST_IN_A_ROW = 2000  # cases that one process runs
WAITING = 20  # times as long as a case may compute it may take
FINDING = "finding"

Run = Callable[[int], str]  # runs the case of this number and says what came of it
Keep = Callable[[int, Path], str]  # writes the files of the case of this number into a folder, and says what it is


class Finding(Exception):
    """A wrong result. The first argument names the cause, in a few words that can name a folder."""


class Limits(NamedTuple):
    """Limits for a case; a busy machine gets more time."""

    seconds: float  # of the processor
    memory: int


class Result(NamedTuple):
    """The result of a case; cause and text are those of a finding."""

    number: int
    kind: str
    cause: str = ""
    text: str = ""


def add_options(parser: Parser, findings: str = "findings") -> None:
    """The options that ``run_cases`` reads."""
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="how many cases (default: %(default)s)")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the first case (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="start behind the last case of the last run")
    parser.add_argument(
        "--seconds", type=float, default=60, metavar="S", help="of the processor, for a case (default: %(default)s)"
    )
    parser.add_argument("--memory", type=float, default=4, metavar="GB", help="for one case (default: %(default)s)")
    parser.add_argument(
        "--findings", type=Path, default=Path(findings), metavar="FOLDER", help="(default: %(default)s)"
    )


def run_cases(run: Run, keep: Keep, args: Namespace, of_what: str) -> int:
    """Run the cases that the options ask for, keep the first finding of each cause, and print the results.

    The exit status: 1 if there are findings, else 0.
    """
    args.findings.mkdir(parents=True, exist_ok=True)
    counter = args.findings / "next"
    start = int(counter.read_text()) if args.resume and counter.exists() else args.start
    limits = Limits(args.seconds, int(args.memory * (1 << 30)))
    kinds: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    done = start
    for result in results_of(run, range(start, start + args.count), limits):
        kinds[result.kind] += 1
        done = max(done, result.number + 1)
        if result.kind == FINDING:
            causes[result.cause] += 1
            keep_finding(keep, result, args.findings)
        if done % 100 == 0:
            counter.write_text(str(done))
    counter.write_text(str(done))
    print(f"{sum(kinds.values()):,} cases{of_what}, from {start} on")
    print(", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))
    for cause, count in sorted(causes.items()):
        print(f"finding: {count} times {cause}, see {args.findings / cause / 'finding.txt'}")
    return int(bool(causes))


def keep_finding(keep: Keep, result: Result, folder: Path) -> None:
    """Keep the files and the text of a finding, unless one of this cause is kept already."""
    place = folder / result.cause
    if not place.exists():
        place.mkdir(parents=True)
        title = keep(result.number, place)
        (place / "finding.txt").write_text(f"case {result.number}, {title}\n\n{result.text}\n")


def results_of(run: Run, numbers: Sequence[int], limits: Limits) -> Iterator[Result]:
    """The result of every case; a child that dies or hangs is replaced."""
    left: List[int] = list(numbers)
    while left:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(read)
                _work(run, left[:MOST_IN_A_ROW], limits, write)
            finally:
                os._exit(0)
        os.close(write)
        for result in _heard(read, child, limits):
            left.remove(result.number)
            yield result
        os.close(read)


def _work(run: Run, numbers: Sequence[int], limits: Limits, pipe: int) -> None:
    """In a child: run the cases, and write a line before and after each."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    with os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") as silent:
        os.dup2(silent.fileno(), 1)
        os.dup2(silent.fileno(), 2)
    for number in numbers:
        os.write(pipe, json.dumps({"begins": number}).encode() + b"\n")
        spent = resource.getrusage(resource.RUSAGE_SELF)
        due = int(spent.ru_utime + spent.ru_stime + limits.seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (due, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        os.write(pipe, json.dumps(_result(run, number)._asdict()).encode() + b"\n")


def _result(run: Run, number: int) -> Result:
    try:
        return Result(number, run(number))
    except MemoryError:
        return Result(number, "MemoryError")  # of the limit, which no machine has
    except Finding as finding:
        return Result(number, FINDING, *map(str, finding.args))
    except Exception as error:  # whatever escapes is what this is about
        return Result(number, FINDING, _cause_of(error), traceback.format_exc())


def _cause_of(error: BaseException) -> str:
    """The kind of an exception and the innermost line of ours that it went through."""
    root = str(Path(__file__).resolve().parents[2])
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(root)]
    where = f"{Path(frames[-1].filename).stem}_{frames[-1].name}" if frames else "nowhere"
    return f"{type(error).__name__}_{where}"


def _heard(pipe: int, child: int, limits: Limits) -> Iterator[Result]:
    """The results that a child tells, until it ends or a case takes too long."""
    begun, rest, due = None, b"", time.monotonic() + WAITING * limits.seconds
    while True:
        ready = select.select([pipe], [], [], max(0.0, due - time.monotonic()))[0]
        data = os.read(pipe, 1 << 16) if ready else b""
        if not data:
            if not ready:
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            if begun is not None:
                killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else status
                cause = "hangs" if not ready or killed_by == signal.SIGXCPU else f"crashes_{killed_by}"
                yield Result(begun, FINDING, cause, f"case {begun} {cause.replace('_', ' with signal ')}")
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in map(json.loads, lines):
            due = time.monotonic() + WAITING * limits.seconds
            begun = line.pop("begins", None)
            if begun is None:
                yield Result(**line)
